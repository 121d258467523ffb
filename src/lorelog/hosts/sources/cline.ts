import { spawn } from "node:child_process"
import type { AgentPlugin } from "@cline/core"

//#include hook.ts

const HOST = "cline"

type Hooks = NonNullable<AgentPlugin["hooks"]>
type Snapshot = Parameters<NonNullable<Hooks["beforeRun"]>>[0]["snapshot"]

let session = ""
let directory = ""
let isNew = true

/** Path of the session, from which lorelog reads the turn: no conversation passes through here. */
function transcript(): string {
  const { HOME = "", CLINE_DIR: root = `${HOME}/.cline`, CLINE_DATA_DIR: data = `${root}/data` } = process.env
  return `${process.env.CLINE_SESSION_DATA_DIR ?? `${data}/sessions`}/${session}/${session}.messages.json`
}

const report = (moment: string, more: Payload = {}): Promise<Answer> =>
  hook(HOST, moment, { session, directory, transcript: transcript(), ...more })

/** Returns what the user asked for last; a message of Cline's own is not that. */
function promptOf({ messages }: Snapshot): string {
  const asked = messages.findLast((message) => message.role === "user" && message.metadata?.displayRole !== "system")
  const text = (asked?.content ?? []).map((part) => (part.type === "text" ? part.text : "")).join("\n")
  return /^<user_input mode="\w+">([^]*)<\/user_input>\s*$/.exec(text)?.[1] ?? text
}

/** Returns a call in the fields of other hosts: several commands are one. */
function callOf({ snapshot, toolCall, input }: Parameters<NonNullable<Hooks["beforeTool"]>>[0]): Payload {
  const commands = input && typeof input === "object" && "commands" in input ? input.commands : undefined
  const command = Array.isArray(commands) ? commands.map((each) => (typeof each === "string" ? each : JSON.stringify(each))).join("\n") : ""
  const agent = snapshot.parentAgentId ? snapshot.agentId : ""
  return { tool: toolCall.toolName, call: toolCall.toolCallId, agent, input: cut(command ? { command } : input) }
}

const textOf = (output: unknown): string => (typeof output === "string" ? output : JSON.stringify(output ?? ""))

const plugin: AgentPlugin = {
  name: "lorelog",
  manifest: { capabilities: ["hooks"] },
  setup(_api, context) {
    session = context.session?.sessionId ?? ""
    directory = context.workspaceInfo?.rootPath ?? process.cwd()
  },
  hooks: {
    async beforeRun({ snapshot }) {
      if (snapshot.parentAgentId) return
      const source = snapshot.messages.length > 1 ? "resume" : "startup"
      const start = isNew ? report("session-start", { source }) : undefined
      isNew = false
      const answers = await Promise.all([start, report("prompt", { prompt: promptOf(snapshot) })])
      const appendContext = answers.flatMap((answer) => answer?.context || []).join("\n\n")
      if (appendContext) return { appendContext }
    },
    async beforeTool(context) {
      const answer = await report("tool-before", callOf(context))
      if (answer.block) return { skip: true, reason: answer.block }
      if (answer.context) return { appendContext: answer.context }
    },
    async afterTool(context) {
      const output = textOf(context.result.output)
      if (!context.result.isError && !output.includes('"success":false')) return
      const { context: appendContext } = await report("tool-after", { ...callOf(context), output: cut(output), failed: true })
      if (appendContext) return { appendContext }
    },
    // Awaited: Cline ends this process soon after its run.
    async afterRun({ snapshot, result }) {
      if (snapshot.parentAgentId) return
      await report(result.status === "failed" ? "turn-failed" : "turn-end", { answer_text: result.outputText })
    },
  },
}

export default plugin
