; C++ beyond C; c.scm follows. `A::b` outside of its class is `b` of `A`; definitions are extended to `template <…>` in cpp.py.
; One flat pattern per shape: nested alternatives lose matches in tree-sitter 0.26.

; --- definitions: types

(class_specifier name: (type_identifier) @name (base_class_clause [(type_identifier) (template_type) (qualified_identifier)] @bases)) @def.class
(class_specifier name: (type_identifier) @name body: (_) @body) @def.class
(class_specifier name: (template_type name: (type_identifier) @name) (base_class_clause [(type_identifier) (template_type) (qualified_identifier)] @bases)) @def.class
(class_specifier name: (template_type name: (type_identifier) @name) body: (_) @body) @def.class
(class_specifier name: (qualified_identifier scope: (_) @of name: (type_identifier) @name) (base_class_clause [(type_identifier) (template_type) (qualified_identifier)] @bases)) @def.class
(class_specifier name: (qualified_identifier scope: (_) @of name: (type_identifier) @name) body: (_) @body) @def.class
(class_specifier name: (qualified_identifier scope: (_) @of name: (template_type name: (type_identifier) @name)) (base_class_clause [(type_identifier) (template_type) (qualified_identifier)] @bases)) @def.class
(class_specifier name: (qualified_identifier scope: (_) @of name: (template_type name: (type_identifier) @name)) body: (_) @body) @def.class
(class_specifier name: (qualified_identifier scope: (_) @of name: (qualified_identifier scope: (_) @of name: (type_identifier) @name)) (base_class_clause [(type_identifier) (template_type) (qualified_identifier)] @bases)) @def.class
(class_specifier name: (qualified_identifier scope: (_) @of name: (qualified_identifier scope: (_) @of name: (type_identifier) @name)) body: (_) @body) @def.class
(struct_specifier name: (type_identifier) @name (base_class_clause [(type_identifier) (template_type) (qualified_identifier)] @bases)) @def.class
(struct_specifier name: (type_identifier) @name body: (_) @body) @def.class
(struct_specifier name: (template_type name: (type_identifier) @name) (base_class_clause [(type_identifier) (template_type) (qualified_identifier)] @bases)) @def.class
(struct_specifier name: (template_type name: (type_identifier) @name) body: (_) @body) @def.class
(struct_specifier name: (qualified_identifier scope: (_) @of name: (type_identifier) @name) (base_class_clause [(type_identifier) (template_type) (qualified_identifier)] @bases)) @def.class
(struct_specifier name: (qualified_identifier scope: (_) @of name: (type_identifier) @name) body: (_) @body) @def.class
(struct_specifier name: (qualified_identifier scope: (_) @of name: (template_type name: (type_identifier) @name)) (base_class_clause [(type_identifier) (template_type) (qualified_identifier)] @bases)) @def.class
(struct_specifier name: (qualified_identifier scope: (_) @of name: (template_type name: (type_identifier) @name)) body: (_) @body) @def.class
(struct_specifier name: (qualified_identifier scope: (_) @of name: (qualified_identifier scope: (_) @of name: (type_identifier) @name)) (base_class_clause [(type_identifier) (template_type) (qualified_identifier)] @bases)) @def.class
(struct_specifier name: (qualified_identifier scope: (_) @of name: (qualified_identifier scope: (_) @of name: (type_identifier) @name)) body: (_) @body) @def.class
(union_specifier name: (type_identifier) @name body: (_) @body) @def.class
(union_specifier name: (template_type name: (type_identifier) @name) body: (_) @body) @def.class
(union_specifier name: (qualified_identifier scope: (_) @of name: (type_identifier) @name) body: (_) @body) @def.class
(union_specifier name: (qualified_identifier scope: (_) @of name: (template_type name: (type_identifier) @name)) body: (_) @body) @def.class
(union_specifier name: (qualified_identifier scope: (_) @of name: (qualified_identifier scope: (_) @of name: (type_identifier) @name)) body: (_) @body) @def.class
(enum_specifier name: (qualified_identifier scope: (_) @of name: (type_identifier) @name) body: (_) @body) @def.enum
(alias_declaration name: (type_identifier) @name) @def.type
(concept_definition name: (identifier) @name) @def.type
(namespace_definition name: (namespace_identifier) @name body: (_) @body) @def.module
(namespace_definition name: (nested_namespace_specifier . (namespace_identifier) @of (namespace_identifier) @name .) body: (_) @body) @def.module
(namespace_definition
  name: (nested_namespace_specifier . (namespace_identifier) @of (nested_namespace_specifier . (namespace_identifier) @of (namespace_identifier) @name .)) body: (_) @body) @def.module
(namespace_definition
  name: (nested_namespace_specifier . (namespace_identifier) @of (nested_namespace_specifier . (namespace_identifier) @of
    (nested_namespace_specifier . (namespace_identifier) @of (namespace_identifier) @name .))) body: (_) @body) @def.module
; `namespace a::b` defines `a`, too
(namespace_definition name: (nested_namespace_specifier . (namespace_identifier) @name @def.module))
(nested_namespace_specifier . (namespace_identifier) @of (nested_namespace_specifier . (namespace_identifier) @name @def.module))
(namespace_alias_definition name: (namespace_identifier) @name) @def.module

; --- definitions: functions, below zero, one or two pointers and references

; Lock lock(mutex); looks like a prototype, and defines a local variable
(compound_statement (declaration declarator: (function_declarator declarator: (identifier) @name)) @def.variable)

; a constructor: its head ends before its initialisers
(function_definition declarator: (function_declarator declarator: [(identifier) (field_identifier) (destructor_name) (operator_name)] @name) (field_initializer_list) @body) @def.function
(function_definition declarator: (function_declarator declarator: (qualified_identifier scope: (_)? @of name: [(identifier) (destructor_name) (operator_name)] @name)) (field_initializer_list) @body) @def.function
(function_definition declarator: (function_declarator declarator: (qualified_identifier scope: (_)? @of name: (qualified_identifier scope: (_)? @of name: [(identifier) (destructor_name) (operator_name)] @name))) (field_initializer_list) @body) @def.function
(function_definition declarator: (function_declarator declarator: [(identifier) (field_identifier) (destructor_name) (operator_name)] @name) body: (_)? @body) @def.function
(function_definition declarator: (_ (function_declarator declarator: [(identifier) (field_identifier) (destructor_name) (operator_name)] @name)) body: (_)? @body) @def.function
(function_definition declarator: (_ (_ (function_declarator declarator: [(identifier) (field_identifier) (destructor_name) (operator_name)] @name))) body: (_)? @body) @def.function
(function_definition declarator: (function_declarator declarator: (template_function name: (identifier) @name)) body: (_)? @body) @def.function
(function_definition declarator: (_ (function_declarator declarator: (template_function name: (identifier) @name))) body: (_)? @body) @def.function
(function_definition declarator: (_ (_ (function_declarator declarator: (template_function name: (identifier) @name)))) body: (_)? @body) @def.function
(function_definition declarator: (function_declarator declarator: (qualified_identifier scope: (_)? @of name: [(identifier) (destructor_name) (operator_name)] @name)) body: (_)? @body) @def.function
(function_definition declarator: (_ (function_declarator declarator: (qualified_identifier scope: (_)? @of name: [(identifier) (destructor_name) (operator_name)] @name))) body: (_)? @body) @def.function
(function_definition declarator: (_ (_ (function_declarator declarator: (qualified_identifier scope: (_)? @of name: [(identifier) (destructor_name) (operator_name)] @name)))) body: (_)? @body) @def.function
(function_definition declarator: (function_declarator declarator: (qualified_identifier scope: (_)? @of name: (template_function name: (identifier) @name))) body: (_)? @body) @def.function
(function_definition declarator: (_ (function_declarator declarator: (qualified_identifier scope: (_)? @of name: (template_function name: (identifier) @name)))) body: (_)? @body) @def.function
(function_definition declarator: (_ (_ (function_declarator declarator: (qualified_identifier scope: (_)? @of name: (template_function name: (identifier) @name))))) body: (_)? @body) @def.function
(function_definition declarator: (function_declarator declarator: (qualified_identifier scope: (_)? @of name: (qualified_identifier scope: (_)? @of name: [(identifier) (destructor_name) (operator_name)] @name))) body: (_)? @body) @def.function
(function_definition declarator: (_ (function_declarator declarator: (qualified_identifier scope: (_)? @of name: (qualified_identifier scope: (_)? @of name: [(identifier) (destructor_name) (operator_name)] @name)))) body: (_)? @body) @def.function
(function_definition declarator: (_ (_ (function_declarator declarator: (qualified_identifier scope: (_)? @of name: (qualified_identifier scope: (_)? @of name: [(identifier) (destructor_name) (operator_name)] @name))))) body: (_)? @body) @def.function
(function_definition declarator: (function_declarator declarator: (qualified_identifier scope: (_)? @of name: (qualified_identifier scope: (_)? @of name: (qualified_identifier scope: (_)? @of name: [(identifier) (destructor_name) (operator_name)] @name)))) body: (_)? @body) @def.function
(function_definition declarator: (_ (function_declarator declarator: (qualified_identifier scope: (_)? @of name: (qualified_identifier scope: (_)? @of name: (qualified_identifier scope: (_)? @of name: [(identifier) (destructor_name) (operator_name)] @name))))) body: (_)? @body) @def.function
(function_definition declarator: (_ (_ (function_declarator declarator: (qualified_identifier scope: (_)? @of name: (qualified_identifier scope: (_)? @of name: (qualified_identifier scope: (_)? @of name: [(identifier) (destructor_name) (operator_name)] @name)))))) body: (_)? @body) @def.function
(function_definition declarator: (operator_cast) @name body: (_)? @body) @def.function
(function_definition declarator: (qualified_identifier scope: (_)? @of name: (operator_cast) @name)) @def.function

; prototypes
(field_declaration declarator: (function_declarator declarator: [(field_identifier) (destructor_name) (operator_name)] @name)) @def.function
(field_declaration declarator: (_ (function_declarator declarator: [(field_identifier) (destructor_name) (operator_name)] @name))) @def.function
(field_declaration declarator: (_ (_ (function_declarator declarator: [(field_identifier) (destructor_name) (operator_name)] @name)))) @def.function
(field_declaration declarator: (operator_cast) @name) @def.function
(declaration declarator: (function_declarator declarator: [(identifier) (field_identifier) (destructor_name) (operator_name)] @name)) @def.function
(declaration declarator: (_ (function_declarator declarator: [(identifier) (field_identifier) (destructor_name) (operator_name)] @name))) @def.function
(declaration declarator: (_ (_ (function_declarator declarator: [(identifier) (field_identifier) (destructor_name) (operator_name)] @name)))) @def.function
(declaration declarator: (operator_cast) @name) @def.function

; --- definitions: variables

(field_declaration
  type: [(class_specifier name: (_) body: (_)) (struct_specifier name: (_) body: (_))]
  declarator: (field_identifier) @name @def.variable)
(declaration
  type: [(class_specifier name: (_) body: (_)) (struct_specifier name: (_) body: (_))]
  declarator: (identifier) @name @def.variable)
(field_declaration declarator: (reference_declarator (field_identifier) @name)) @def.variable
(declaration declarator: (reference_declarator (identifier) @name)) @def.variable
(declaration declarator: (init_declarator declarator: (reference_declarator (identifier) @name))) @def.variable
(declaration declarator: (init_declarator declarator: (qualified_identifier scope: (_)? @of name: (identifier) @name))) @def.variable
(declaration declarator: (qualified_identifier scope: (_)? @of name: (identifier) @name)) @def.variable
(declaration declarator: (init_declarator declarator: (qualified_identifier
  scope: (_)? @of name: (qualified_identifier scope: (_)? @of name: (identifier) @name)))) @def.variable

; --- imports

(using_declaration "namespace" [(identifier) (qualified_identifier)] @import.module) @import
(using_declaration . "using" . (qualified_identifier) @import.module) @import

; --- scopes and bound names

[(template_declaration) (lambda_expression) (for_range_loop) (catch_clause) (requires_expression)] @scope

(parameter_declaration declarator: (reference_declarator (identifier) @local))
(optional_parameter_declaration declarator: (identifier) @local)
(optional_parameter_declaration declarator: (_ declarator: (identifier) @local))
(optional_parameter_declaration declarator: (reference_declarator (identifier) @local))
(variadic_parameter_declaration declarator: (_ (identifier) @local))
(for_range_loop declarator: (identifier) @local)
(for_range_loop declarator: (reference_declarator (identifier) @local))
(for_range_loop declarator: (pointer_declarator declarator: (identifier) @local))
(structured_binding_declarator (identifier) @local)
(type_parameter_declaration (type_identifier) @local)
(optional_type_parameter_declaration name: (type_identifier) @local)
(variadic_type_parameter_declaration (type_identifier) @local)

; --- uses: calls

(call_expression function: (qualified_identifier scope: (_)? @receiver name: (identifier) @use.call))
(call_expression function: (qualified_identifier
  name: (qualified_identifier scope: (_)? @receiver name: (identifier) @use.call)))
(call_expression function: (qualified_identifier
  name: (qualified_identifier name: (qualified_identifier scope: (_)? @receiver name: (identifier) @use.call))))
(call_expression function: (template_function name: (identifier) @use.call))
(call_expression function: (qualified_identifier
  scope: (_)? @receiver name: (template_function name: (identifier) @use.call)))
(call_expression function: (field_expression
  argument: (_) @receiver field: (template_method name: (field_identifier) @use.call)))
(new_expression type: (type_identifier) @use.call)
(new_expression type: (template_type name: (type_identifier) @use.call))
(new_expression type: (qualified_identifier scope: (_)? @receiver name: (type_identifier) @use.call))
(new_expression type: (qualified_identifier
  scope: (_)? @receiver name: (template_type name: (type_identifier) @use.call)))
(field_initializer . (field_identifier) @use.write)

; --- uses: types and reads

(destructor_name) @skip
(qualified_identifier scope: (_)? @receiver name: (type_identifier) @use.type)
(qualified_identifier scope: (_)? @receiver name: (template_type name: (type_identifier) @use.type))
(qualified_identifier scope: (_)? @receiver name: (identifier) @use.read)
(namespace_identifier) @use.read
