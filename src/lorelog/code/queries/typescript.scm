; TypeScript only; ecmascript.scm follows (for TSX: jsx.scm between them).

; --- definitions

(class_declaration name: (type_identifier) @name body: (_) @body) @def.class
(abstract_class_declaration name: (type_identifier) @name body: (_) @body) @def.class
(interface_declaration name: (type_identifier) @name body: (_) @body) @def.interface
(class_declaration name: (type_identifier) @name (class_heritage (extends_clause value: (_) @bases))) @def.class
(class_declaration name: (type_identifier) @name (class_heritage (implements_clause (_) @bases))) @def.class
(abstract_class_declaration name: (type_identifier) @name (class_heritage (extends_clause value: (_) @bases))) @def.class
(abstract_class_declaration name: (type_identifier) @name (class_heritage (implements_clause (_) @bases))) @def.class
(interface_declaration name: (type_identifier) @name (extends_type_clause type: (_) @bases)) @def.interface
(type_alias_declaration name: (type_identifier) @name value: (_)) @def.type
(enum_declaration name: (identifier) @name body: (_) @body) @def.enum
(enum_body name: [(property_identifier) (string)] @name @def.constant)
(enum_body (enum_assignment name: [(property_identifier) (string)] @name) @def.constant)
(module name: (_) @name body: (_) @body) @def.module
(internal_module name: (_) @name body: (_) @body) @def.module

(function_signature name: (identifier) @name) @def.function
(class_body (method_signature name: (_) @name) @def.method)
(abstract_method_signature name: (_) @name) @def.method
(public_field_definition
  name: [(property_identifier) (private_property_identifier)] @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @def.method
(public_field_definition name: [(property_identifier) (private_property_identifier) (string)] @name) @def.variable
(interface_body (method_signature name: (_) @name) @def.method)
(interface_body (property_signature name: (_) @name) @def.variable)
(type_alias_declaration value: (object_type (property_signature name: (_) @name) @def.variable))
(type_alias_declaration value: (object_type (method_signature name: (_) @name) @def.method))
(type_alias_declaration value: (intersection_type (object_type (property_signature name: (_) @name) @def.variable)))
(type_alias_declaration value: (intersection_type (object_type (method_signature name: (_) @name) @def.method)))
(required_parameter (accessibility_modifier) pattern: (identifier) @name) @def.variable
(required_parameter "readonly" pattern: (identifier) @name) @def.variable
(optional_parameter (accessibility_modifier) pattern: (identifier) @name) @def.variable

(internal_module name: (nested_identifier) @skip)

; --- imports

(import_statement (import_require_clause
  (identifier) @import.alias
  source: (string (string_fragment) @import.module))) @import

; --- scopes and bound names

[
  (class_declaration)
  (abstract_class_declaration)
  (interface_declaration)
  (type_alias_declaration)
  (function_signature)
  (method_signature)
  (abstract_method_signature)
  (function_type)
  (conditional_type)
  (index_signature)
] @scope

(type_parameter name: (type_identifier) @local)
(mapped_type_clause name: (type_identifier) @local)
(infer_type (type_identifier) @local)
(required_parameter pattern: (identifier) @local)
(optional_parameter pattern: (identifier) @local)
(required_parameter pattern: (array_pattern (identifier) @local))
(index_signature name: (identifier) @local)

; --- uses

(extends_clause value: (identifier) @use.type)
(extends_clause value: (member_expression object: (_) @receiver property: (property_identifier) @use.type))
(nested_type_identifier module: (_) @receiver name: (type_identifier) @use.type)
(type_query (identifier) @use.type)
(type_query (member_expression object: (_) @receiver property: (property_identifier) @use.type))
(type_identifier) @use.type
(nested_identifier object: (_) @receiver property: (property_identifier) @use.read)
