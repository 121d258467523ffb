; Go. A method's container is its receiver's type; embedded types are the bases of a struct or an interface.

; --- definitions

(function_declaration name: (identifier) @name body: (_)? @body) @def.function
(method_declaration
  receiver: (parameter_list (parameter_declaration type: [
    (type_identifier) @of
    (generic_type type: (type_identifier) @of)
    (pointer_type (type_identifier) @of)
    (pointer_type (generic_type type: (type_identifier) @of))
    (parenthesized_type (type_identifier) @of)
  ]))
  name: (field_identifier) @name
  body: (_)? @body) @def.method

(type_spec name: (type_identifier) @name type: (struct_type (field_declaration_list
  (field_declaration !name type: (_) @bases)))) @def.class
(type_spec name: (type_identifier) @name type: (struct_type (field_declaration_list) @body)) @def.class
(type_spec name: (type_identifier) @name type: (interface_type
  (type_elem . [(type_identifier) (qualified_type) (generic_type)] @bases .))) @def.interface
(type_spec name: (type_identifier) @name type: (interface_type) @h.members) @def.interface
(type_spec name: (type_identifier) @name) @def.type
(type_alias name: (type_identifier) @name) @def.type

(field_declaration name: (field_identifier) @name) @def.variable
(method_elem name: (field_identifier) @name) @def.method
(const_spec (identifier) @name) @def.constant
(var_spec name: (identifier) @name) @def.variable

; the whole declaration, for a single spec in it (see go.py)
(type_declaration (type_spec name: (type_identifier) @name)) @h.whole @def.type
(type_declaration (type_alias name: (type_identifier) @name)) @h.whole @def.type
(const_declaration (const_spec (identifier) @name)) @h.whole @def.constant
(var_declaration (var_spec name: (identifier) @name)) @h.whole @def.variable

; --- imports

(import_spec name: (_)? @import.alias path: (_) @import.module) @import
(package_clause) @skip

; --- scopes and bound names

[
  (type_spec)
  (type_alias)
  (function_declaration)
  (method_declaration)
  (func_literal)
  (if_statement)
  (for_statement)
  (expression_switch_statement)
  (type_switch_statement)
  (expression_case)
  (type_case)
  (default_case)
  (communication_case)
  (function_type)
  (method_elem)
] @scope

(parameter_declaration name: (identifier) @local)
(variadic_parameter_declaration name: (identifier) @local)
(type_parameter_declaration name: (identifier) @local)
(method_declaration receiver: (parameter_list (parameter_declaration
  type: (generic_type type_arguments: (type_arguments (type_elem (type_identifier) @local))))))
(method_declaration receiver: (parameter_list (parameter_declaration
  type: (pointer_type (generic_type type_arguments: (type_arguments (type_elem (type_identifier) @local)))))))
(short_var_declaration left: (expression_list (identifier) @local))
(range_clause left: (expression_list (identifier) @local) ":=")
(receive_statement left: (expression_list (identifier) @local) ":=")
(type_switch_statement alias: (expression_list (identifier) @local))

; --- uses: calls

(call_expression function: (identifier) @use.call)
(call_expression function: (selector_expression operand: (_) @receiver field: (field_identifier) @use.call))
(call_expression function: (parenthesized_expression (identifier) @use.call))
(call_expression function: (index_expression operand: (identifier) @use.call))
(call_expression function: (index_expression
  operand: (selector_expression operand: (_) @receiver field: (field_identifier) @use.call)))
(call_expression function: (type_instantiation_expression type: (type_identifier) @use.call))
(type_conversion_expression type: (generic_type type: (type_identifier) @use.call))
(type_conversion_expression type: (generic_type
  type: (qualified_type package: (_) @receiver name: (type_identifier) @use.call)))

; --- uses: writes

(assignment_statement left: (expression_list (identifier) @use.write))
(assignment_statement left: (expression_list
  (selector_expression operand: (_) @receiver field: (field_identifier) @use.write)))
(inc_statement (identifier) @use.write)
(inc_statement (selector_expression operand: (_) @receiver field: (field_identifier) @use.write))
(dec_statement (identifier) @use.write)
(dec_statement (selector_expression operand: (_) @receiver field: (field_identifier) @use.write))
(range_clause left: (expression_list (identifier) @use.write) "=")
(composite_literal
  type: [(type_identifier) (qualified_type) (generic_type)] @receiver
  body: (literal_value (keyed_element key: (literal_element (identifier) @use.write))))

; --- uses: types and reads

(qualified_type package: (_) @receiver name: (type_identifier) @use.type)
(type_identifier) @use.type
(selector_expression operand: (_) @receiver field: (field_identifier) @use.read)
(package_identifier) @use.read
(identifier) @use.read
