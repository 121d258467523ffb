// Starts the language server, and adds commands for search, inbox and page. All else is the server's.
import * as vscode from "vscode"
import { LanguageClient } from "vscode-languageclient/node"

let client: LanguageClient | undefined

interface MemorySymbol {
  name: string
  containerName?: string
  location: { uri: string; range: { start: { line: number } } }
}

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const settings = vscode.workspace.getConfiguration("lorelog")
  const command = settings.get<string>("command", "lorelog")
  const server = { command, args: ["lsp"], options: { cwd: vscode.workspace.workspaceFolders?.[0]?.uri.fsPath } }
  client = new LanguageClient("lorelog", server, {
    documentSelector: [{ scheme: "file" }],
    initializationOptions: { write: settings.get<boolean>("write", false) },
  })
  const offer = (name: string, act: () => unknown) =>
    context.subscriptions.push(vscode.commands.registerCommand(name, act))
  offer("lorelog.search", search)
  offer("lorelog.inbox", () => inTerminal(command, ["review"]))
  offer("lorelog.page", () => inTerminal(command, ["ui"]))
  try {
    await client.start()
  } catch (error) {
    void vscode.window.showWarningMessage(`lorelog did not start: ${String(error)}. Is lorelog[lsp] installed?`)
  }
}

export async function deactivate(): Promise<void> {
  await client?.stop()
}

async function search(): Promise<void> {
  const query = await vscode.window.showInputBox({ prompt: "Search memories" })
  if (!query || !client?.isRunning()) return
  const found = (await client.sendRequest<MemorySymbol[] | null>("workspace/symbol", { query })) ?? []
  const items = found.map((each) => ({ label: each.name, description: each.containerName, place: each.location }))
  const chosen = await vscode.window.showQuickPick(items, { placeHolder: `${items.length} memories` })
  if (!chosen) return
  const at = new vscode.Position(chosen.place.range.start.line, 0)
  await vscode.window.showTextDocument(vscode.Uri.parse(chosen.place.uri), { selection: new vscode.Range(at, at) })
}

/** Runs the program itself, not a shell that would read its arguments. */
function inTerminal(command: string, args: string[]): void {
  vscode.window.createTerminal({ name: "lorelog", shellPath: command, shellArgs: args }).show()
}
