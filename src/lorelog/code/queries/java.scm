; Java.

; --- definitions

(class_declaration name: (identifier) @name superclass: (superclass (_) @bases) body: (_) @body) @def.class
(class_declaration name: (identifier) @name interfaces: (super_interfaces (type_list (_) @bases)) body: (_) @body) @def.class
(class_declaration name: (identifier) @name body: (_) @body) @def.class
(record_declaration name: (identifier) @name interfaces: (super_interfaces (type_list (_) @bases)) body: (_) @body) @def.class
(record_declaration name: (identifier) @name body: (_) @body) @def.class
(record_declaration parameters: (formal_parameters (formal_parameter name: (identifier) @name) @def.variable))
(interface_declaration name: (identifier) @name (extends_interfaces (type_list (_) @bases)) body: (_) @body) @def.interface
(interface_declaration name: (identifier) @name body: (_) @body) @def.interface
(annotation_type_declaration name: (identifier) @name body: (_) @body) @def.interface
(annotation_type_element_declaration name: (identifier) @name) @def.method
(enum_declaration name: (identifier) @name interfaces: (super_interfaces (type_list (_) @bases)) body: (_) @body) @def.enum
(enum_declaration name: (identifier) @name body: (_) @body) @def.enum
(enum_constant name: (identifier) @name body: (_)? @body) @def.constant
(method_declaration name: (identifier) @name body: (_)? @body) @def.method
(constructor_declaration name: (identifier) @name body: (_) @body) @def.method
(compact_constructor_declaration name: (identifier) @name body: (_) @body) @def.method

(field_declaration (modifiers "static" "final") declarator: (variable_declarator name: (identifier) @name)) @def.constant
(field_declaration (modifiers "final" "static") declarator: (variable_declarator name: (identifier) @name)) @def.constant
(field_declaration declarator: (variable_declarator name: (identifier) @name)) @def.variable
(constant_declaration declarator: (variable_declarator name: (identifier) @name)) @def.constant

; an anonymous class is not a symbol; the container of its members is its type
(object_creation_expression type: (_) @name (class_body) @container)

; --- imports

(import_declaration (scoped_identifier) @import.module (asterisk) @import.name) @import
(import_declaration (scoped_identifier scope: (_) @import.module name: (identifier) @import.name) .) @import
(import_declaration (identifier) @import.module) @import
(package_declaration) @skip

; --- scopes and bound names

[
  (class_declaration)
  (interface_declaration)
  (record_declaration)
  (lambda_expression)
  (static_initializer)
  (for_statement)
  (enhanced_for_statement)
  (try_with_resources_statement)
  (catch_clause)
  (switch_rule)
] @scope

(formal_parameter name: (identifier) @local)
(spread_parameter (variable_declarator name: (identifier) @local))
(local_variable_declaration declarator: (variable_declarator name: (identifier) @local))
(enhanced_for_statement name: (identifier) @local)
(resource name: (identifier) @local)
(catch_formal_parameter name: (identifier) @local)
(lambda_expression parameters: (identifier) @local)
(inferred_parameters (identifier) @local)
(instanceof_expression name: (identifier) @local)
(type_pattern (identifier) @local)
(type_parameter . (type_identifier) @local)

; --- uses: calls

(method_invocation object: (_) @receiver name: (identifier) @use.call)
(method_invocation !object name: (identifier) @use.call)
(object_creation_expression type: (type_identifier) @use.call)
(object_creation_expression type: (generic_type . (type_identifier) @use.call))
(object_creation_expression type: (scoped_type_identifier (_) @receiver . (type_identifier) @use.call .))
(object_creation_expression type: (generic_type
  . (scoped_type_identifier (_) @receiver . (type_identifier) @use.call .)))

; --- uses: writes

(assignment_expression left: (identifier) @use.write)
(assignment_expression left: (field_access object: (_) @receiver field: (identifier) @use.write))
(update_expression (identifier) @use.write)
(update_expression (field_access object: (_) @receiver field: (identifier) @use.write))

; --- uses: types and reads

(element_value_pair key: (identifier) @skip)
(labeled_statement . (identifier) @skip)
(break_statement (identifier) @skip)
(continue_statement (identifier) @skip)
(annotation name: (identifier) @use.type)
(marker_annotation name: (identifier) @use.type)
(annotation name: (scoped_identifier scope: (_) @receiver name: (identifier) @use.type))
(marker_annotation name: (scoped_identifier scope: (_) @receiver name: (identifier) @use.type))
(scoped_type_identifier (_) @receiver . (type_identifier) @use.type .)
(type_identifier) @use.type
(method_reference (_) @receiver . (identifier) @use.read .)
(field_access object: (_) @receiver field: (identifier) @use.read)
(identifier) @use.read
