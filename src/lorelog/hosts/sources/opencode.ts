import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import type { Event, Part } from "@opencode-ai/sdk"
import type { Hooks, Plugin } from "@opencode-ai/plugin"

//#include hook.ts

/** Kilo Code, a fork, has the same plugins. */
const HOST = "opencode"

/** Prefix of OpenCode's own requests (titles, summaries), which get no memory. */
const SIDE_REQUEST = /^[^\n]{0,80}\b(title|summar)/i

type Loose = { mcp?: Record<string, unknown>; skills?: { paths?: string[] } }

/** Path of OpenCode's database, from which lorelog reads the turn: no conversation passes through here. */
function database(): string {
  const { HOME = "", XDG_DATA_HOME: data = `${HOME}/.local/share`, [`${HOST.toUpperCase()}_DB`]: chosen = `${HOST}.db` } = process.env
  return chosen.startsWith("/") ? chosen : `${data}/${HOST}/${chosen}`
}

/** Tells whether a command failed; OpenCode reports its exit status with the result. */
function isFailure(metadata: unknown): boolean {
  const exit = metadata && typeof metadata === "object" && "exit" in metadata ? metadata.exit : 0
  return typeof exit === "number" && exit !== 0
}

function wordsOf(parts: Part[]): string {
  return parts.flatMap((part) => (part.type === "text" && !part.synthetic ? [part.text] : [])).join("\n")
}

export const Lorelog: Plugin = async ({ client, directory }) => {
  const started = new Map<string, Promise<string>>()
  const prompted = new Map<string, string>()
  const turns = new Map<string, string>()
  const subagents = new Set<string>()
  const compacting = new Set<string>()
  const pending = new Set<Promise<string>>()

  const report = (moment: string, session: string, more: Payload = {}): Promise<string> => {
    const turn = turns.get(session) ?? ""
    const sent = hook(HOST, moment, { session, turn, directory, transcript: database(), ...more })
    const answer = sent.then(({ context }) => context)
    pending.add(answer)
    void answer.then(() => pending.delete(answer))
    return answer
  }

  const reportCall = (moment: string, session: string, more: Payload): Promise<Answer> =>
    hook(HOST, moment, { session, turn: turns.get(session) ?? "", directory, ...more })

  const start = (session: string, source: string): Promise<string> => {
    const startup = started.get(session) ?? report("session-start", session, { source })
    started.set(session, startup)
    return startup
  }

  const end = (moment: string, session: string | undefined, source = ""): void => {
    if (session && !subagents.has(session)) void report(moment, session, { source })
  }

  /** Writes notes in a child session, so that it counts as a subagent's; without tools, and deleted afterwards. */
  const write = async (parentID: string, { system, text }: SummaryRequest): Promise<SummaryResult> => {
    const { data: own } = await client.session.create({ body: { parentID, title: "lorelog: notes of a turn" } })
    if (!own) throw new Error("no session")
    subagents.add(own.id)
    try {
      const body = { system, tools: { "*": false }, parts: [{ type: "text" as const, text }] }
      const { data } = await client.session.prompt({ path: { id: own.id }, body })
      if (!data) throw new Error("no answer")
      const { input, output, reasoning, cache } = data.info.tokens
      return { text: wordsOf(data.parts), tokens_in: input + cache.read + cache.write, tokens_out: output + reasoning }
    } finally {
      await client.session.delete({ path: { id: own.id } })
    }
  }

  const idle = (session: string): void => {
    end("turn-end", session)
    if (!subagents.has(session)) void summarizeTurn(HOST, session, (request) => write(session, request))
  }

  const handle = (event: Event): void => {
    if (event.type === "session.created") {
      const { id, parentID } = event.properties.info
      if (parentID) subagents.add(id)
      else void start(id, "startup")
    } else if (event.type === "session.idle") idle(event.properties.sessionID)
    else if (event.type === "session.compacted") end("compact", event.properties.sessionID)
    else if (event.type === "session.error") end("turn-failed", event.properties.sessionID, event.properties.error?.name)
  }

  const hooks: Hooks = {
    config: async (config) => {
      const open = config as Loose
      open.mcp = { lorelog: { type: "local", command: [COMMAND, "mcp"], enabled: true }, ...open.mcp }
      const skills = `${import.meta.dirname}/skills`
      if (existsSync(skills)) open.skills = { ...open.skills, paths: [...(open.skills?.paths ?? []), skills] }
    },
    event: async ({ event }) => handle(event),
    "chat.message": async ({ sessionID, messageID }, { message, parts }) => {
      if (subagents.has(sessionID)) return
      turns.set(sessionID, message.id ?? messageID ?? "")
      const startup = start(sessionID, "resume")
      prompted.set(sessionID, remembered(sessionID, await report("prompt", sessionID, { prompt: wordsOf(parts) })))
      await startup
    },
    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
      const { context, block } = await reportCall("tool-before", sessionID, { tool, call: callID, input: cut(args) })
      if (block) throw new Error(block)
      keepForResult(callID, sessionID, context)
    },
    "tool.execute.after": async ({ tool, sessionID, callID, args }, result) => {
      const contexts = [takeForResult(callID)]
      if (isFailure(result.metadata)) {
        const more = { tool, call: callID, input: cut(args), output: cut(result.output), failed: true }
        contexts.push((await reportCall("tool-after", sessionID, more)).context)
      }
      const added = contexts.filter(Boolean)
      if (added.length && typeof result.output === "string") result.output = [result.output, ...added].join("\n\n")
    },
    "experimental.session.compacting": async ({ sessionID }) => void compacting.add(sessionID),
    "experimental.chat.system.transform": async ({ sessionID = "" }, { system }) => {
      if (!started.has(sessionID) || compacting.delete(sessionID) || SIDE_REQUEST.test(system[0] ?? "")) return
      // A call that failed has no result that can be extended: its context follows with the next request.
      for (const [call, { session, context }] of pendingCalls) {
        if (session !== sessionID) continue
        pendingCalls.delete(call)
        prompted.set(sessionID, remembered(sessionID, context))
      }
      const context = [await start(sessionID, "resume"), prompted.get(sessionID)].filter(Boolean)
      if (context.length) system.push(context.join("\n\n"))
    },
    // The only hook that OpenCode waits for when it exits.
    dispose: async () => {
      for (const session of turns.keys()) void report("session-end", session)
      await Promise.all(pending)
    },
  }
  return hooks
}
