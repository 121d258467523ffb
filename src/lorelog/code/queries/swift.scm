; Swift. An extension is not a symbol; the extended type is the container of its definitions.

; --- definitions

(class_declaration declaration_kind: "extension" name: (user_type) @name) @container
(class_declaration declaration_kind: "enum" name: (type_identifier) @name body: (_) @body) @def.enum
(class_declaration name: (type_identifier) @name body: (_) @body) @def.class
(class_declaration name: (type_identifier) @name (inheritance_specifier inherits_from: (_) @bases)) @def.class
(protocol_declaration name: (type_identifier) @name body: (_) @body) @def.interface
(protocol_declaration name: (type_identifier) @name (inheritance_specifier inherits_from: (_) @bases)) @def.interface
(enum_entry name: (simple_identifier) @name) @def.constant
(typealias_declaration name: (type_identifier) @name) @def.type
(associatedtype_declaration name: (type_identifier) @name) @def.type
(function_declaration name: (simple_identifier) @name body: (_)? @body) @def.function
(protocol_function_declaration name: (simple_identifier) @name) @def.function
(init_declaration name: "init" @name body: (_)? @body) @def.method
(property_declaration
  name: (pattern bound_identifier: (simple_identifier) @name) computed_value: (computed_property) @body) @def.variable
(property_declaration name: (pattern bound_identifier: (simple_identifier) @name)) @def.variable
(protocol_property_declaration name: (pattern bound_identifier: (simple_identifier) @name)) @def.variable

; --- imports

(import_declaration (identifier) @import.module) @import

; --- scopes and bound names

[
  (class_declaration)
  (lambda_literal)
  (for_statement)
  (if_statement)
  (switch_entry)
  (catch_block)
  (computed_property)
  (willset_didset_block)
  (protocol_function_declaration)
  (subscript_declaration)
] @scope

(parameter name: (simple_identifier) @local)
(parameter external_name: (simple_identifier) @skip)
(lambda_parameter name: (simple_identifier) @local)
(if_statement bound_identifier: (simple_identifier) @local)
(guard_statement bound_identifier: (simple_identifier) @local)
(for_statement item: (pattern bound_identifier: (simple_identifier) @local))
(pattern (value_binding_pattern) bound_identifier: (simple_identifier) @local)
(type_parameter . (type_identifier) @local)

; --- uses

(call_expression . (simple_identifier) @use.call)
(call_expression . (navigation_expression
  target: (_) @receiver suffix: (navigation_suffix suffix: (simple_identifier) @use.call)))
(assignment target: (directly_assignable_expression . (simple_identifier) @use.write))
(assignment target: (directly_assignable_expression (navigation_expression
  target: (_) @receiver suffix: (navigation_suffix suffix: (simple_identifier) @use.write))))
(value_argument_label) @skip
(user_type (type_identifier) @use.type)
(type_identifier) @use.type
(navigation_expression target: (_) @receiver suffix: (navigation_suffix suffix: (simple_identifier) @use.read))
(simple_identifier) @use.read
