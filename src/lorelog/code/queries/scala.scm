; Scala. Imports are split in scala.py.

; --- definitions

(class_definition name: (identifier) @name body: (_)? @body) @def.class
(class_definition name: (identifier) @name extend: (extends_clause [(type_identifier) (generic_type) (stable_type_identifier)] @bases)) @def.class
(object_definition name: (identifier) @name body: (_)? @body) @def.class
(object_definition name: (identifier) @name extend: (extends_clause [(type_identifier) (generic_type) (stable_type_identifier)] @bases)) @def.class
(trait_definition name: (identifier) @name body: (_)? @body) @def.interface
(trait_definition name: (identifier) @name extend: (extends_clause [(type_identifier) (generic_type) (stable_type_identifier)] @bases)) @def.interface
(enum_definition name: (identifier) @name body: (_)? @body) @def.enum
(simple_enum_case name: (identifier) @name) @def.constant
(full_enum_case name: (identifier) @name) @def.constant
(package_object name: (identifier) @name body: (_)? @body) @def.module
(type_definition name: (type_identifier) @name) @def.type
(function_definition name: [(identifier) (operator_identifier)] @name body: (_)? @body) @def.function
(function_declaration name: [(identifier) (operator_identifier)] @name) @def.function
(given_definition name: (identifier) @name) @def.variable
(val_definition pattern: (identifier) @name) @def.variable
(var_definition pattern: (identifier) @name) @def.variable
(val_declaration name: (identifier) @name) @def.variable
(var_declaration name: (identifier) @name) @def.variable
(class_parameter name: (identifier) @name) @def.variable

; --- imports

(import_declaration) @import.module @import
(package_clause name: (_) @skip)

; --- scopes and bound names

[
  (class_definition)
  (trait_definition)
  (type_definition)
  (function_definition)
  (extension_definition)
  (lambda_expression)
  (case_clause)
  (for_expression)
  (block)
] @scope

(parameter name: (identifier) @local)
(binding name: (identifier) @local)
(lambda_expression parameters: (identifier) @local)
(enumerator . (identifier) @local)
(case_class_pattern pattern: (identifier) @local)
(case_clause pattern: (identifier) @local)
(typed_pattern pattern: (identifier) @local)
(tuple_pattern (identifier) @local)
(capture_pattern name: (identifier) @local)
(type_parameters name: (identifier) @local)

; --- uses

(call_expression function: (identifier) @use.call)
(call_expression function: (field_expression value: (_) @receiver field: (identifier) @use.call))
(call_expression function: (generic_function function: (identifier) @use.call))
(call_expression function: (generic_function function: (field_expression value: (_) @receiver field: (identifier) @use.call)))
(instance_expression . (type_identifier) @use.call)
(instance_expression . (generic_type type: (type_identifier) @use.call))
(infix_expression operator: (identifier) @use.call)
(assignment_expression left: (identifier) @use.write)
(assignment_expression left: (field_expression value: (_) @receiver field: (identifier) @use.write))
(stable_type_identifier (_) @receiver (type_identifier) @use.type .)
(type_identifier) @use.type
(field_expression value: (_) @receiver field: (identifier) @use.read)
(identifier) @use.read
