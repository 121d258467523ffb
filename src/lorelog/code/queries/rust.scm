; Rust. An impl block is not a symbol; its type is the container of its definitions.

; --- definitions

(function_item name: (identifier) @name body: (_) @body) @def.function
(function_signature_item name: (identifier) @name) @def.function
(macro_definition name: (identifier) @name . (_) @body) @def.function
(struct_item name: (type_identifier) @name body: (field_declaration_list)? @body) @def.class
(union_item name: (type_identifier) @name body: (_) @body) @def.class
(enum_item name: (type_identifier) @name body: (_) @body) @def.enum
(enum_variant name: (identifier) @name) @def.constant
(trait_item name: (type_identifier) @name bounds: (trait_bounds (_) @bases) body: (_) @body) @def.interface
(trait_item name: (type_identifier) @name body: (_) @body) @def.interface
(type_item name: (type_identifier) @name) @def.type
(associated_type name: (type_identifier) @name) @def.type
(const_item name: (identifier) @name) @def.constant
(static_item name: (identifier) @name) @def.variable
(field_declaration name: (field_identifier) @name) @def.variable
(mod_item name: (identifier) @name body: (_)? @body) @def.module

(impl_item trait: (_)? @h.trait type: [
  (type_identifier) @name
  (primitive_type) @name
  (generic_type type: (type_identifier) @name)
  (scoped_type_identifier name: (type_identifier) @name)
  (generic_type type: (scoped_type_identifier name: (type_identifier) @name))
  (reference_type type: (type_identifier) @name)
  (reference_type type: (generic_type type: (type_identifier) @name))
  (dynamic_type trait: (type_identifier) @name)
  (array_type) @name
  (tuple_type) @name
  (pointer_type) @name
  (reference_type type: (primitive_type) @name)
  (reference_type type: (array_type) @name)
  (function_type) @name
]) @container

; --- imports: use trees are split in rust.py

(use_declaration argument: (_) @import.module) @import
(extern_crate_declaration name: (identifier) @import.module alias: (identifier)? @import.alias) @import

; --- scopes and bound names

[(impl_item) (trait_item) (struct_item) (enum_item) (type_item) (closure_expression) (match_arm) (for_expression) (if_expression) (while_expression) (block) (function_signature_item)] @scope

(parameter pattern: (identifier) @local)
(closure_parameters (identifier) @local)
(let_declaration pattern: (identifier) @local)
(for_expression pattern: (identifier) @local)
(tuple_pattern (identifier) @local)
(slice_pattern (identifier) @local)
(ref_pattern (identifier) @local)
(mut_pattern (identifier) @local)
(reference_pattern (identifier) @local)
(captured_pattern . (identifier) @local)
(tuple_struct_pattern type: (_) (identifier) @local (#match? @local "^[a-z_]"))
(match_pattern . (identifier) @local (#match? @local "^[a-z_]"))
(field_pattern name: (shorthand_field_identifier) @local)
(field_pattern pattern: (identifier) @local)
(type_parameter name: (type_identifier) @local)
(const_parameter name: (identifier) @local)

; --- uses: calls

(call_expression function: (identifier) @use.call)
(call_expression function: (field_expression value: (_) @receiver field: (field_identifier) @use.call))
(call_expression function: (scoped_identifier path: (_)? @receiver name: (identifier) @use.call))
(call_expression function: (generic_function function: (identifier) @use.call))
(call_expression function: (generic_function
  function: (scoped_identifier path: (_)? @receiver name: (identifier) @use.call)))
(call_expression function: (generic_function
  function: (field_expression value: (_) @receiver field: (field_identifier) @use.call)))
(macro_invocation macro: (identifier) @use.call)
(macro_invocation macro: (scoped_identifier path: (_)? @receiver name: (identifier) @use.call))

; the arguments of a macro are only tokens
(token_tree [(identifier) (self) (crate)] @receiver . ["." "::"] . (identifier) @use.call . (token_tree "("))
(token_tree ["." "::"] @receiver . (identifier) @use.call . (token_tree "("))
(token_tree (identifier) @use.call . (token_tree "("))
(token_tree (identifier) @use.call . "!" . (token_tree))
(token_tree [(identifier) (self) (crate)] @receiver . ["." "::"] . (identifier) @use.read)
(token_tree ["." "::"] @receiver . (identifier) @use.read)

; --- uses: writes

(assignment_expression left: (identifier) @use.write)
(assignment_expression left: (field_expression value: (_) @receiver field: (field_identifier) @use.write))
(assignment_expression left: (unary_expression (identifier) @use.write))
(assignment_expression left: (unary_expression (field_expression value: (_) @receiver field: (field_identifier) @use.write)))
(compound_assignment_expr left: (identifier) @use.write)
(compound_assignment_expr left: (field_expression value: (_) @receiver field: (field_identifier) @use.write))
(compound_assignment_expr left: (unary_expression (identifier) @use.write))
(struct_expression name: (_) @receiver body: (field_initializer_list (field_initializer field: (field_identifier) @use.write)))

; --- uses: types and reads

(lifetime) @skip
(label) @skip
(visibility_modifier) @skip
(attribute (identifier) @_attribute arguments: (token_tree) @skip (#not-eq? @_attribute "derive"))
(attribute (identifier) @_attribute arguments: (token_tree (identifier) @use.type) (#eq? @_attribute "derive"))
(scoped_type_identifier path: (_)? @receiver name: (type_identifier) @use.type)
(type_identifier) @use.type
(scoped_identifier path: (_)? @receiver name: (identifier) @use.read)
(field_expression value: (_) @receiver field: (field_identifier) @use.read)
(struct_pattern type: (_) @receiver (field_pattern name: (field_identifier) @use.read))
(identifier) @use.read
