; Shared by JavaScript and TypeScript. If several patterns capture a name, the first one counts:
; special cases precede general ones, and queries of one language precede this file.

; --- definitions

(function_declaration name: (identifier) @name body: (_) @body) @def.function
(generator_function_declaration name: (identifier) @name body: (_) @body) @def.function
(class_body (method_definition name: (_) @name body: (_) @body) @def.method)
(object (method_definition name: [(property_identifier) (string)] @name body: (_) @body) @def.method)
(object (pair
  key: [(property_identifier) (string)] @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body) (generator_function body: (_) @body)]) @def.method)

; const x = require("y"): an import, not a variable (see javascript.py)
(variable_declarator name: (identifier) @name value: (call_expression function: (identifier) @h.called)) @def.variable
(variable_declarator
  name: (identifier) @name
  value: (member_expression object: (call_expression function: (identifier) @h.called))) @def.variable
(variable_declarator
  name: (object_pattern [(shorthand_property_identifier_pattern) @name (pair_pattern value: (identifier) @name)])
  value: (call_expression function: (identifier) @h.called)) @def.variable

; a function or a class that is assigned to a variable
(variable_declarator
  name: (identifier) @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body) (generator_function body: (_) @body)]) @def.function
(variable_declarator name: (identifier) @name value: (class body: (_) @body)) @def.class

; exports.f = function …, A.prototype.f = function …, A.f = function … (javascript.py sets the container)
(assignment_expression
  left: (member_expression object: (_) @h.object property: [(property_identifier) (private_property_identifier)] @name)
  right: [(arrow_function body: (_) @body) (function_expression body: (_) @body) (generator_function body: (_) @body)]) @def.method
(assignment_expression
  left: (member_expression object: (_) @h.object property: (property_identifier) @name)
  right: (class body: (_) @body)) @def.class
(program (expression_statement (assignment_expression
  left: (member_expression object: [(identifier) (member_expression)] @h.object property: (property_identifier) @name)
  right: (_) @h.value) @def.variable))
(assignment_expression
  left: (member_expression object: (identifier) @_module property: (property_identifier) @_exports)
  right: [
    (function_expression name: (identifier) @name body: (_) @body)
    (generator_function name: (identifier) @name body: (_) @body)
  ]
  (#eq? @_module "module") (#eq? @_exports "exports")) @def.function

; members that a constructor assigns
(class_body (method_definition
  name: (property_identifier) @h.constructor
  body: (statement_block (expression_statement (assignment_expression
    left: (member_expression object: (this) property: [(property_identifier) (private_property_identifier)] @name)) @def.variable))))

; --- imports

(import_statement
  (import_clause (identifier) @h.default @import.alias)
  source: (string (string_fragment) @import.module)) @import
(import_statement
  (import_clause (namespace_import (identifier) @import.alias))
  source: (string (string_fragment) @import.module)) @import
(import_statement
  (import_clause (named_imports (import_specifier name: (_) @import.name alias: (_)? @import.alias)))
  source: (string (string_fragment) @import.module)) @import
(import_statement "import" . source: (string (string_fragment) @import.module)) @import
(export_statement
  (export_clause (export_specifier name: (_) @import.name alias: (_)? @import.alias))
  source: (string (string_fragment) @import.module)) @import
(export_statement
  (namespace_export (identifier) @import.alias)
  source: (string (string_fragment) @import.module)) @import
(export_statement "*" @import.name . "from" source: (string (string_fragment) @import.module)) @import
(variable_declarator
  name: (identifier) @import.alias
  value: (call_expression
    function: (identifier) @_require
    arguments: (arguments . (string (string_fragment) @import.module))) @import
  (#eq? @_require "require"))
(variable_declarator
  name: (object_pattern (shorthand_property_identifier_pattern) @import.name)
  value: (call_expression
    function: (identifier) @_require
    arguments: (arguments . (string (string_fragment) @import.module))) @import
  (#eq? @_require "require"))
(variable_declarator
  name: (object_pattern (pair_pattern key: (property_identifier) @import.name value: (identifier) @import.alias))
  value: (call_expression
    function: (identifier) @_require
    arguments: (arguments . (string (string_fragment) @import.module))) @import
  (#eq? @_require "require"))
(variable_declarator
  name: (identifier) @import.alias
  value: (member_expression
    object: (call_expression
      function: (identifier) @_require
      arguments: (arguments . (string (string_fragment) @import.module)))
    property: (property_identifier) @import.name) @import
  (#eq? @_require "require"))
(call_expression
  function: (identifier) @h.bare
  arguments: (arguments . (string (string_fragment) @import.module))
  (#eq? @h.bare "require")) @import
(call_expression function: (import) arguments: (arguments . (string (string_fragment) @import.module))) @import

; --- variables; those of a function become locals

(lexical_declaration "const" (variable_declarator name: (identifier) @name) @def.constant)
(variable_declarator name: (identifier) @name) @def.variable
(variable_declarator name: (object_pattern (shorthand_property_identifier_pattern) @name)) @def.variable
(variable_declarator name: (object_pattern (pair_pattern value: (identifier) @name))) @def.variable
(variable_declarator name: (object_pattern
  (object_assignment_pattern left: (shorthand_property_identifier_pattern) @name))) @def.variable
(variable_declarator name: (array_pattern (identifier) @name)) @def.variable

; --- scopes and bound names

[
  (function_declaration)
  (generator_function_declaration)
  (function_expression)
  (generator_function)
  (arrow_function)
  (method_definition)
  (if_statement)
  (for_statement)
  (for_in_statement)
  (while_statement)
  (do_statement)
  (switch_statement)
  (try_statement)
  (catch_clause)
  (class_static_block)
] @scope

(arrow_function parameter: (identifier) @local)
(for_in_statement kind: _ left: (identifier) @local)
(for_in_statement kind: _ left: (array_pattern (identifier) @local))
(catch_clause parameter: (identifier) @local)
(function_expression name: (identifier) @local)
(rest_pattern (identifier) @local)
(pair_pattern value: (array_pattern (identifier) @local))
(array_pattern (assignment_pattern left: (identifier) @local))

; --- uses: calls

(call_expression function: (identifier) @use.call)
(call_expression function: (member_expression
  object: (_) @receiver
  property: [(property_identifier) (private_property_identifier)] @use.call))
(new_expression constructor: (identifier) @use.call)
(new_expression constructor: (member_expression object: (_) @receiver property: (property_identifier) @use.call))
(decorator (identifier) @use.call)
(decorator (member_expression object: (_) @receiver property: (property_identifier) @use.call))

; --- uses: writes

(assignment_expression left: (identifier) @use.write)
(assignment_expression left: (member_expression
  object: (_) @receiver
  property: [(property_identifier) (private_property_identifier)] @use.write))
(augmented_assignment_expression left: (identifier) @use.write)
(augmented_assignment_expression left: (member_expression
  object: (_) @receiver
  property: [(property_identifier) (private_property_identifier)] @use.write))
(update_expression argument: (identifier) @use.write)
(update_expression argument: (member_expression
  object: (_) @receiver
  property: [(property_identifier) (private_property_identifier)] @use.write))
(assignment_expression left: (array_pattern (identifier) @use.write))
(assignment_expression left: (object_pattern (shorthand_property_identifier_pattern) @use.write))
(assignment_expression left: (object_pattern (pair_pattern value: (identifier) @use.write)))
(for_in_statement !kind left: (identifier) @use.write)

; other destructuring patterns bind names; these follow the assignments that look like them
(object_pattern (shorthand_property_identifier_pattern) @local)
(object_pattern (pair_pattern value: (identifier) @local))
(object_pattern (pair_pattern value: (assignment_pattern left: (identifier) @local)))
(object_pattern (object_assignment_pattern left: (shorthand_property_identifier_pattern) @local))

; --- uses: types and reads

(member_expression object: (_) @receiver property: [(property_identifier) (private_property_identifier)] @use.read)
(shorthand_property_identifier) @use.read
(export_specifier name: (identifier) @use.read)
(export_specifier alias: (_) @skip)
(identifier) @use.read

; --- statements that a definition is extended to (see javascript.py)

(lexical_declaration (variable_declarator name: (identifier) @name)) @h.declaration @def.variable
(variable_declaration (variable_declarator name: (identifier) @name)) @h.declaration @def.variable
(export_statement declaration: (_ (variable_declarator name: (identifier) @name))) @h.export @def.variable
(export_statement declaration: (_ name: (_) @name)) @h.export @def.variable
