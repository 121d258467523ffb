; Shell. A variable is defined by its first assignment outside of functions (bash.py); assignments in a function are writes.

(function_definition name: (word) @name body: (_) @body) @def.function
(program (variable_assignment name: (variable_name) @name) @def.variable)
(program (declaration_command (variable_assignment name: (variable_name) @name)) @def.variable)

(command name: (command_name (word) @_command) . argument: [(word) (string) (raw_string) (concatenation)] @import.module
  (#any-of? @_command "source" ".")) @import

(declaration_command ["local" "declare" "typeset"] (variable_assignment name: (variable_name) @local @use.write))
(declaration_command ["local" "declare" "typeset"] (variable_name) @local)
(for_statement variable: (variable_name) @use.write)

(command_name (word) @use.call)
(variable_assignment name: (variable_name) @use.write)
(variable_name) @use.read
