; Kotlin. A companion object is not a symbol: its members are called on the class. Imports are split in kotlin.py.

; --- definitions

(class_declaration "interface" name: (identifier) @name) @def.interface
(class_declaration name: (identifier) @name (enum_class_body) @body) @def.enum
(class_declaration name: (identifier) @name (class_body)? @body) @def.class
(class_declaration name: (identifier) @name (delegation_specifiers (delegation_specifier (user_type) @bases))) @def.class
(class_declaration name: (identifier) @name (delegation_specifiers (delegation_specifier (constructor_invocation (user_type) @bases)))) @def.class
(object_declaration name: (identifier) @name (class_body)? @body) @def.class
(object_declaration name: (identifier) @name (delegation_specifiers (delegation_specifier (user_type) @bases))) @def.class
(object_declaration name: (identifier) @name (delegation_specifiers (delegation_specifier (constructor_invocation (user_type) @bases)))) @def.class
(enum_entry . (identifier) @name) @def.constant
(enum_entry (modifiers) . (identifier) @name) @def.constant
(type_alias type: (identifier) @name) @def.type
(function_declaration (user_type (identifier) @of) . name: (identifier) @name) @def.function
(function_declaration name: (identifier) @name (function_body)? @body) @def.function
(secondary_constructor "constructor" @name (block)? @body) @def.method
(class_parameter ["val" "var"] . (identifier) @name) @def.variable
(property_declaration (variable_declaration . (identifier) @name) [(getter) (setter)] @body) @def.variable
(property_declaration (variable_declaration . (identifier) @name)) @def.variable
(property_declaration (multi_variable_declaration (variable_declaration . (identifier) @name))) @def.variable

; the container of an anonymous object's members is its type
(object_literal (delegation_specifiers (delegation_specifier (constructor_invocation (user_type) @name))) (class_body) @container)
(object_literal (delegation_specifiers (delegation_specifier (user_type) @name)) (class_body) @container)

; --- imports

(import (qualified_identifier) @import.module) @import
(import) @skip
(package_header) @skip

; --- scopes and bound names

[
  (class_declaration)
  (type_alias)
  (lambda_literal)
  (anonymous_function)
  (anonymous_initializer)
  (for_statement)
  (catch_block)
  (getter)
  (setter)
] @scope

(parameter . (identifier) @local)
(class_parameter (identifier) @local . ":")
(lambda_parameters (variable_declaration . (identifier) @local))
(for_statement (variable_declaration . (identifier) @local))
(for_statement (multi_variable_declaration (variable_declaration . (identifier) @local)))
(catch_block . (identifier) @local)
(setter . (identifier) @local)
(type_parameter . (identifier) @local)

; --- uses

(call_expression . (identifier) @use.call)
(call_expression . (navigation_expression (_) @receiver (identifier) @use.call .))
(assignment left: (identifier) @use.write)
(assignment left: (navigation_expression (_) @receiver (identifier) @use.write .))
(unary_expression argument: (identifier) @use.write operator: ["++" "--"])
(user_type (identifier) @use.type)
(value_argument . (identifier) @skip . "=")
(navigation_expression (_) @receiver . (identifier) @use.read .)
(label) @skip
(identifier) @use.read
