const COMMAND = "lorelog"
const WAIT_MS = 2_000
const STUCK_MS = 20_000
const LEND_MS = 15_000
const MOST_TOLD = 8

type Payload = Record<string, string | number | undefined>

/** Tells lorelog what happened and gives back what is to be told to the model. Never throws, never waits long. */
const hook = (host: string, moment: string, payload: Payload): Promise<string> =>
  say(host, moment, payload, WAIT_MS).then(contextOf)

/** Runs a hook and gives back what it prints, or nothing when that takes too long. */
function say(host: string, moment: string, payload: Payload, waitMs: number): Promise<string> {
  return new Promise((resolve) => {
    try {
      // In a group of its own: a turn's end is written down even when the host leaves, or is interrupted, meanwhile.
      const child = spawn(COMMAND, ["hook", host, moment], { stdio: ["pipe", "pipe", "ignore"], detached: true })
      let said = ""
      const stuck = setTimeout(() => child.kill("SIGKILL"), STUCK_MS)
      const late = setTimeout(() => done(""), waitMs)
      const done = (answer: string): void => {
        clearTimeout(late)
        resolve(answer)
      }
      stuck.unref?.()
      child.on("error", () => done(""))
      child.on("close", () => {
        clearTimeout(stuck)
        done(said)
      })
      child.stdin.on("error", () => undefined)
      child.stdout.on("data", (piece) => (said += String(piece)))
      child.stdin.end(JSON.stringify(payload))
      child.unref()
    } catch {
      resolve("")
    }
  })
}

function contextOf(said: string): string {
  try {
    const answer: unknown = JSON.parse(said)
    const context = answer && typeof answer === "object" && "context" in answer ? answer.context : ""
    return typeof context === "string" ? context : ""
  } catch {
    return ""
  }
}

type Wanted = { id: string; system: string; text: string; max_tokens: number }
type Written = { text: string; tokens_in: number; tokens_out: number }

let lends = true

/** Lends lorelog the host's own model for the notes of a turn, where a person has chosen that. Never throws. */
async function lend(host: string, session: string, write: (wanted: Wanted) => Promise<Written>): Promise<void> {
  if (!lends) return
  try {
    const asked = JSON.parse(await say(host, "summary-request", { session }, LEND_MS)) as { summarize?: Wanted | null }
    lends = asked.summarize !== undefined
    if (!asked.summarize) return
    // Nothing written is told, too: lorelog then takes the note out of the turn, and need not wait.
    const written = await write(asked.summarize).catch(() => ({ text: "" }))
    await say(host, "summary", { id: asked.summarize.id, ...written }, WAIT_MS)
  } catch {
    // It did not answer; it does without, after a while.
  }
}

/** A map of the whole process: a host may load and register a plugin several times, and hooks of one turn run in any of them. */
function shared<Value>(name: string): Map<string, Value> {
  const held = globalThis as unknown as Record<symbol, Map<string, Value> | undefined>
  return (held[Symbol.for(`lorelog.${name}`)] ??= new Map<string, Value>())
}

const told = shared<string[]>("told")

/** Keeps what was told at earlier prompts of a session at hand: lorelog never says the same twice. */
function remembered(session: string, said: string): string {
  const before = (told.get(session) ?? []).filter((one) => one !== said)
  const all = [...before, said].filter(Boolean).slice(-MOST_TOLD)
  told.set(session, all)
  return all.join("\n\n")
}
