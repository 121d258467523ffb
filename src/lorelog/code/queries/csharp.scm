; C#. A namespace in braces is a container; a file-scoped one (`namespace A;`) does not enclose nodes, and is left out.

; --- definitions

(class_declaration name: (identifier) @name (base_list (_) @bases)) @def.class
(class_declaration name: (identifier) @name body: (_)? @body) @def.class
(struct_declaration name: (identifier) @name (base_list (_) @bases)) @def.class
(struct_declaration name: (identifier) @name body: (_)? @body) @def.class
(record_declaration name: (identifier) @name (base_list (_) @bases)) @def.class
(record_declaration name: (identifier) @name body: (_)? @body) @def.class
(record_declaration (parameter_list (parameter name: (identifier) @name) @def.variable))
(interface_declaration name: (identifier) @name (base_list (_) @bases)) @def.interface
(interface_declaration name: (identifier) @name body: (_)? @body) @def.interface
(enum_declaration name: (identifier) @name body: (_)? @body) @def.enum
(enum_member_declaration name: (identifier) @name) @def.constant
(delegate_declaration name: (identifier) @name) @def.type
(namespace_declaration name: (identifier) @name body: (_) @body) @def.module
(namespace_declaration name: (qualified_name qualifier: (_) @of name: (identifier) @name) body: (_) @body) @def.module

(method_declaration name: (identifier) @name body: (_)? @body) @def.method
(constructor_declaration name: (identifier) @name (constructor_initializer) @body) @def.method
(constructor_declaration name: (identifier) @name body: (_)? @body) @def.method
(destructor_declaration name: (identifier) @name body: (_)? @body) @def.method
(operator_declaration operator: _ @name body: (_)? @body) @def.method
(conversion_operator_declaration type: (_) @name body: (_)? @body) @def.method
(local_function_statement name: (identifier) @name body: (_)? @body) @def.function
(property_declaration name: (identifier) @name accessors: (_)? @body) @def.variable
(event_declaration name: (identifier) @name) @def.variable
(field_declaration (variable_declaration (variable_declarator name: (identifier) @name))) @def.variable
(event_field_declaration (variable_declaration (variable_declarator name: (identifier) @name))) @def.variable

; --- imports

(using_directive name: (identifier) @import.alias [(identifier) (qualified_name)] @import.module) @import
(using_directive !name [(identifier) (qualified_name)] @import.module) @import
(file_scoped_namespace_declaration) @skip
(namespace_declaration name: (_) @skip)

; --- scopes and bound names

[
  (class_declaration)
  (struct_declaration)
  (record_declaration)
  (interface_declaration)
  (delegate_declaration)
  (lambda_expression)
  (anonymous_method_expression)
  (foreach_statement)
  (for_statement)
  (catch_clause)
  (using_statement)
  (accessor_declaration)
  (operator_declaration)
  (indexer_declaration)
] @scope

(parameter name: (identifier) @local)
(parameter_list name: (identifier) @local)
(lambda_expression parameters: (implicit_parameter) @local)
(local_declaration_statement (variable_declaration (variable_declarator name: (identifier) @local)))
(for_statement (variable_declaration (variable_declarator name: (identifier) @local)))
(using_statement (variable_declaration (variable_declarator name: (identifier) @local)))
(foreach_statement left: (identifier) @local)
(catch_declaration name: (identifier) @local)
(declaration_pattern name: (identifier) @local)
(declaration_expression name: (identifier) @local)
(type_parameter name: (identifier) @local)

; --- uses: calls

(invocation_expression function: (identifier) @use.call)
(invocation_expression function: (generic_name . (identifier) @use.call))
(invocation_expression function: (member_access_expression expression: _ @receiver name: (identifier) @use.call))
(invocation_expression function: (member_access_expression
  expression: _ @receiver name: (generic_name . (identifier) @use.call)))
(invocation_expression function: (conditional_access_expression
  condition: _ @receiver (member_binding_expression name: (identifier) @use.call)))
(object_creation_expression type: (identifier) @use.call)
(object_creation_expression type: (generic_name . (identifier) @use.call))
(object_creation_expression type: (qualified_name qualifier: (_) @receiver name: (identifier) @use.call))

; --- uses: writes

(assignment_expression left: (identifier) @use.write)
(assignment_expression left: (member_access_expression expression: _ @receiver name: (identifier) @use.write))
(postfix_unary_expression (identifier) @use.write ["++" "--"])
(prefix_unary_expression ["++" "--"] (identifier) @use.write)
(postfix_unary_expression (member_access_expression expression: _ @receiver name: (identifier) @use.write) ["++" "--"])

; --- uses: types and reads

(_ type: (identifier) @use.type)
(_ returns: (identifier) @use.type)
(base_list (identifier) @use.type)
(type_argument_list (identifier) @use.type)
(generic_name . (identifier) @use.type)
(type_parameter_constraint type: (identifier) @use.type)
(type_parameter_constraints_clause (identifier) @use.type)
(attribute name: (identifier) @use.type)
(qualified_name qualifier: (_) @receiver name: (identifier) @use.type)
(binary_expression operator: ["is" "as"] right: (identifier) @use.type)
(as_expression right: (identifier) @use.type)
(is_expression right: (identifier) @use.type)
(argument name: (identifier) @skip)
(member_access_expression expression: _ @receiver name: (identifier) @use.read)
(conditional_access_expression condition: _ @receiver (member_binding_expression name: (identifier) @use.read))
(identifier) @use.read
