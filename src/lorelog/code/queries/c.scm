; C, and the greater part of C++ (cpp.scm precedes this). A declarator may be nested in pointers, arrays and
; initialisers: one pattern per depth, with `_` for any node between. A typedef or a variable whose type is defined with
; its own name has the range of its name only, so that it does not contain that type.

; --- definitions: functions and prototypes

(function_definition declarator: (function_declarator declarator: (identifier) @name) body: (_) @body) @def.function
(function_definition declarator: (_ declarator: (function_declarator declarator: (identifier) @name)) body: (_) @body) @def.function
(function_definition declarator: (_ declarator: (_ declarator: (function_declarator declarator: (identifier) @name))) body: (_) @body) @def.function
(function_definition declarator: (function_declarator declarator: (parenthesized_declarator (identifier) @name)) body: (_) @body) @def.function
(function_definition
  declarator: (function_declarator declarator: (parenthesized_declarator
    (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))))
  body: (_) @body) @def.function
(function_definition
  declarator: (function_declarator declarator: (function_declarator declarator: (identifier) @name))
  body: (_) @body) @def.function
(function_definition
  declarator: (function_declarator declarator: (parenthesized_declarator (pointer_declarator
    declarator: (parenthesized_declarator (function_declarator declarator: (identifier) @name)))))
  body: (_) @body) @def.function
(declaration
  declarator: (function_declarator declarator: (parenthesized_declarator (pointer_declarator
    declarator: (parenthesized_declarator (function_declarator declarator: (identifier) @name)))))) @def.function
(declaration declarator: (function_declarator declarator: (identifier) @name)) @def.function
(declaration declarator: (_ declarator: (function_declarator declarator: (identifier) @name))) @def.function
(declaration declarator: (_ declarator: (_ declarator: (function_declarator declarator: (identifier) @name)))) @def.function
(declaration declarator: (function_declarator declarator: (parenthesized_declarator . (identifier) @name .))) @def.function
(declaration declarator: (function_declarator declarator: (parenthesized_declarator
  (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))))) @def.function

; --- definitions: types

(type_definition type: (struct_specifier !name body: (_) @body) declarator: (type_identifier) @name) @def.class
(type_definition type: (union_specifier !name body: (_) @body) declarator: (type_identifier) @name) @def.class
(type_definition type: (enum_specifier !name body: (_) @body) declarator: (type_identifier) @name) @def.enum
(struct_specifier name: (type_identifier) @name body: (_) @body) @def.class
(union_specifier name: (type_identifier) @name body: (_) @body) @def.class
(enum_specifier name: (type_identifier) @name body: (_) @body) @def.enum
(enumerator name: (identifier) @name) @def.constant
(type_definition
  type: [(struct_specifier name: (_) body: (_)) (union_specifier name: (_) body: (_)) (enum_specifier name: (_) body: (_))]
  declarator: (type_identifier) @name @def.type)
(type_definition
  type: [(struct_specifier name: (_) body: (_)) (union_specifier name: (_) body: (_)) (enum_specifier name: (_) body: (_))]
  declarator: (_ declarator: (type_identifier) @name @def.type))
(type_definition declarator: (type_identifier) @name) @def.type
(type_definition declarator: (primitive_type) @name) @def.type
(type_definition declarator: (_ declarator: (type_identifier) @name)) @def.type
(type_definition declarator: (_ declarator: (_ declarator: (type_identifier) @name))) @def.type
(type_definition declarator: (function_declarator declarator: (parenthesized_declarator
  (pointer_declarator declarator: (type_identifier) @name)))) @def.type
(type_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (parenthesized_declarator
  (pointer_declarator declarator: (type_identifier) @name))))) @def.type

; --- definitions: macros

(preproc_def name: (identifier) @name value: (_)) @def.constant
(preproc_def name: (identifier) @name) @def.constant
(preproc_function_def name: (identifier) @name value: (_)? @body) @def.function

; --- definitions: fields and variables

(field_declaration
  type: [(struct_specifier name: (_) body: (_)) (union_specifier name: (_) body: (_)) (enum_specifier name: (_) body: (_))]
  declarator: (field_identifier) @name @def.variable)
(field_declaration
  type: [(struct_specifier name: (_) body: (_)) (union_specifier name: (_) body: (_)) (enum_specifier name: (_) body: (_))]
  declarator: (_ declarator: (field_identifier) @name @def.variable))
(field_declaration declarator: (field_identifier) @name) @def.variable
(field_declaration declarator: (pointer_declarator declarator: (field_identifier) @name)) @def.variable
(field_declaration declarator: (array_declarator declarator: (field_identifier) @name)) @def.variable
(field_declaration declarator: (_ declarator: (_ declarator: (field_identifier) @name))) @def.variable
(field_declaration declarator: (_ declarator: (_ declarator: (_ declarator: (field_identifier) @name)))) @def.variable
(field_declaration declarator: (function_declarator declarator: (parenthesized_declarator
  (pointer_declarator declarator: (field_identifier) @name)))) @def.variable
(field_declaration declarator: (_ declarator: (function_declarator declarator: (parenthesized_declarator
  (pointer_declarator declarator: (field_identifier) @name))))) @def.variable
(field_declaration declarator: (function_declarator declarator: (parenthesized_declarator
  (pointer_declarator declarator: (array_declarator declarator: (field_identifier) @name))))) @def.variable

(declaration
  type: [(struct_specifier name: (_) body: (_)) (union_specifier name: (_) body: (_)) (enum_specifier name: (_) body: (_))]
  declarator: (identifier) @name @def.variable)
(declaration
  type: [(struct_specifier name: (_) body: (_)) (union_specifier name: (_) body: (_)) (enum_specifier name: (_) body: (_))]
  declarator: (_ declarator: (identifier) @name @def.variable))
(declaration declarator: (identifier) @name) @def.variable
(declaration declarator: (_ declarator: (identifier) @name)) @def.variable
(declaration declarator: (_ declarator: (_ declarator: (identifier) @name))) @def.variable
(declaration declarator: (_ declarator: (_ declarator: (_ declarator: (identifier) @name)))) @def.variable
(declaration declarator: (function_declarator declarator: (parenthesized_declarator
  (pointer_declarator declarator: (identifier) @name)))) @def.variable
(declaration declarator: (function_declarator declarator: (parenthesized_declarator
  (pointer_declarator declarator: (array_declarator declarator: (identifier) @name))))) @def.variable
(declaration declarator: (_ declarator: (function_declarator declarator: (parenthesized_declarator
  (pointer_declarator declarator: (identifier) @name))))) @def.variable
(declaration declarator: (_ declarator: (function_declarator declarator: (parenthesized_declarator
  (pointer_declarator declarator: (array_declarator declarator: (identifier) @name)))))) @def.variable

; --- imports

(preproc_include path: [(string_literal) (system_lib_string)] @import.module) @import

; --- scopes and bound names

[(compound_statement) (for_statement)] @scope

(parameter_declaration declarator: (identifier) @local)
(parameter_declaration declarator: (_ declarator: (identifier) @local))
(parameter_declaration declarator: (_ declarator: (_ declarator: (identifier) @local)))
(parameter_declaration declarator: (function_declarator declarator: (parenthesized_declarator
  (pointer_declarator declarator: (identifier) @local))))
(preproc_params (identifier) @local)

; --- uses: calls

(call_expression function: (identifier) @use.call)
(call_expression function: (field_expression argument: (_) @receiver field: (field_identifier) @use.call))
(call_expression function: (parenthesized_expression (identifier) @use.call))
(call_expression function: (parenthesized_expression (pointer_expression (identifier) @use.call)))

; --- uses: writes

(assignment_expression left: (identifier) @use.write)
(assignment_expression left: (field_expression argument: (_) @receiver field: (field_identifier) @use.write))
(assignment_expression left: (pointer_expression argument: (identifier) @use.write))
(update_expression argument: (identifier) @use.write)
(update_expression argument: (field_expression argument: (_) @receiver field: (field_identifier) @use.write))
(initializer_pair designator: (field_designator (field_identifier) @use.write))

; --- uses: types and reads

(type_identifier) @use.type
(field_expression argument: (_) @receiver field: (field_identifier) @use.read)
(identifier) @use.read
