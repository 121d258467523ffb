; Lua. `function M.f` and `M.f = function` define `f` of `M`; `local x = require "y"` is an import (lua.py).

(function_declaration name: (identifier) @name body: (_)? @body) @def.function
(function_declaration name: (dot_index_expression table: (_) @of field: (identifier) @name) body: (_)? @body) @def.function
(function_declaration name: (method_index_expression table: (_) @of method: (identifier) @name) body: (_)? @body) @def.method
(assignment_statement
  (variable_list . name: (dot_index_expression table: (_) @of field: (identifier) @name))
  (expression_list . value: (function_definition body: (_)? @body))) @def.function
(assignment_statement
  (variable_list . name: (identifier) @name)
  (expression_list . value: (function_definition body: (_)? @body))) @def.function
(field name: (identifier) @name value: (function_definition body: (_)? @body)) @def.method
(assignment_statement
  (variable_list . name: (identifier) @name)
  (expression_list . value: (function_call name: (identifier) @h.called))) @def.variable
(chunk (variable_declaration (assignment_statement (variable_list name: (identifier) @name))) @def.variable)
(chunk (assignment_statement (variable_list name: (identifier) @name)) @def.variable)
(chunk (assignment_statement
  (variable_list name: (dot_index_expression table: (identifier) @of field: (identifier) @name))) @def.variable)

(assignment_statement
  (variable_list . name: (identifier) @import.alias)
  (expression_list . value: (function_call
    name: (identifier) @_called arguments: (arguments . (string content: (_) @import.module))))
  (#eq? @_called "require")) @import

[(function_definition) (for_statement) (block)] @scope
(parameters name: (identifier) @local)
(variable_declaration (assignment_statement (variable_list name: (identifier) @local)))
(variable_declaration (variable_list name: (identifier) @local))
(for_generic_clause (variable_list name: (identifier) @local))
(for_numeric_clause name: (identifier) @local)

(function_call name: (identifier) @use.call)
(function_call name: (dot_index_expression table: (_) @receiver field: (identifier) @use.call))
(function_call name: (method_index_expression table: (_) @receiver method: (identifier) @use.call))
(assignment_statement (variable_list name: (identifier) @use.write))
(assignment_statement (variable_list name: (dot_index_expression table: (_) @receiver field: (identifier) @use.write)))
(dot_index_expression table: (_) @receiver field: (identifier) @use.read)
(identifier) @use.read
