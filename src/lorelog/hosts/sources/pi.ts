import { spawn } from "node:child_process"
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent"

//#include hook.ts

/** Oh My Pi, a fork, has the same extensions. */
const HOST = "pi"

/** Contexts of a session's start, until they were shown with its first prompt. */
const started = shared<Promise<string>>("started")

const sessionOf = (context: ExtensionContext): string => context.sessionManager.getSessionId()

const placeOf = (context: ExtensionContext): Payload => ({
  session: sessionOf(context),
  directory: context.cwd,
  transcript: context.sessionManager.getSessionFile(),
})

const report = (moment: string, context: ExtensionContext, more: Payload = {}): Promise<Answer> =>
  hook(HOST, moment, { ...placeOf(context), ...more })

const textOf = (content: readonly { type: string; text?: string }[]): string => content.map((part) => part.text ?? "").join("\n")

export default function lorelog(pi: ExtensionAPI): void {
  pi.on("session_start", (event, context) => {
    const source = (event as { reason?: string }).reason ?? "startup"
    started.set(sessionOf(context), report("session-start", context, { source }).then((answer) => answer.context))
  })
  pi.on("before_agent_start", async ({ prompt }, context) => {
    const session = sessionOf(context)
    const contexts = await Promise.all([started.get(session) ?? "", report("prompt", context, { prompt }).then((answer) => answer.context)])
    started.delete(session)
    const content = contexts.filter(Boolean).join("\n\n")
    if (content) return { message: { customType: "lorelog", content, display: false } }
  })
  pi.on("tool_call", async ({ toolName: tool, toolCallId: call, input }, context) => {
    const answer = await report("tool-before", context, { tool, call, input: cut(input) })
    if (answer.block) return { block: true, reason: answer.block }
    keepForResult(call, sessionOf(context), answer.context)
  })
  pi.on("tool_result", async ({ toolName: tool, toolCallId: call, input, content, isError }, context) => {
    const contexts = [takeForResult(call)]
    if (isError) {
      const more = { tool, call, input: cut(input), output: cut(textOf(content)), failed: true }
      contexts.push((await report("tool-after", context, more)).context)
    }
    const added = contexts.filter(Boolean).map((text) => ({ type: "text" as const, text }))
    if (added.length) return { content: [...content, ...added] }
  })
  // Not awaited: the hook continues by itself when the program exits.
  pi.on("agent_end", ({ messages }, context) => {
    const last = messages.findLast((message) => message.role === "assistant")
    const failed = last?.role === "assistant" && last.stopReason === "error"
    // The answer tells whether it is in the transcript yet, which Oh My Pi writes late.
    const answer_text = last?.role === "assistant" ? textOf(last.content as { type: string; text?: string }[]) : ""
    void report(failed ? "turn-failed" : "turn-end", context, { answer_text })
  })
  pi.on("session_compact", (_event, context) => void report("compact", context))
  pi.on("session_shutdown", async (event, context) => {
    await report("session-end", context, { source: (event as { reason?: string }).reason })
  })
}
