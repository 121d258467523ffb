-- Neovim's own client: open, hover, lens, edit, diagnostics, symbols, actions. Writes what it saw to the file SEEN.
local seen = {}
local function save()
  local file = io.open(os.getenv("SEEN"), "w")
  file:write(vim.fn.json_encode(seen))
  file:close()
end
local ok, problem = pcall(function()
  vim.cmd("edit src/pricing.py")
  local id = vim.lsp.start_client({ cmd = { "lorelog", "lsp" }, root_dir = vim.fn.getcwd(), init_options = { write = true } })
  vim.lsp.buf_attach_client(0, id)
  vim.wait(20000, function() return vim.lsp.get_client_by_id(id).initialized or vim.lsp.buf_get_clients(0)[id] end)
  local function ask(method, params)
    params.textDocument = params.textDocument or vim.lsp.util.make_text_document_params()
    local replies = vim.lsp.buf_request_sync(0, method, params, 20000)
    return replies and replies[id] and replies[id].result
  end
  local function eventually(look)
    local found
    vim.wait(30000, function() found = look(); return found and not vim.tbl_isempty(found) end, 200)
    return found
  end
  local function hover(line, character)
    local found = ask("textDocument/hover", { position = { line = line, character = character } })
    return found and type(found) == "table" and found.contents and found.contents.value or ""
  end
  seen.lenses = vim.tbl_map(function(lens) return lens.command.title end, eventually(function() return ask("textDocument/codeLens", {}) end))
  eventually(function() seen.hover = hover(3, 6); return seen.hover:find("commit") and { seen.hover } end)
  vim.api.nvim_win_set_cursor(0, { 5, 0 })
  vim.cmd("normal! Ox = float(items)")
  seen.marked = vim.tbl_map(function(each) return { each.lnum, each.severity, each.message } end, eventually(function() return vim.diagnostic.get(0) end))
  seen.unsaved = hover(4, 0)
  vim.cmd("undo")
  vim.wait(30000, function() return #vim.diagnostic.get(0) == 0 end, 100)
  seen.unmarked = #vim.diagnostic.get(0)
  seen.symbols = vim.tbl_map(function(each) return each.name end, ask("workspace/symbol", { query = "cents" }))
  local at = { line = 3, character = 6 }
  local actions = ask("textDocument/codeAction", { range = { start = at, ["end"] = at }, context = { diagnostics = {} } })
  seen.actions = vim.tbl_map(function(each) return each.title end, actions)
  ask("workspace/executeCommand", { command = actions[2].command.command, arguments = actions[2].command.arguments })
  seen.after = #eventually(function() local left = ask("textDocument/codeLens", {}); return #left == 0 and { 1 } end)
  local began = vim.loop.hrtime()
  for number = 1, 500 do vim.api.nvim_buf_set_lines(0, 0, 0, false, { "# " .. number }) end
  hover(503, 6)
  seen.typed_ms = (vim.loop.hrtime() - began) / 1e6
  vim.lsp.stop_client(id)
end)
if not ok then seen.problem = tostring(problem) end
save()
vim.cmd("qall!")
