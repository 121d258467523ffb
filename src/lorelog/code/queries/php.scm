; PHP. Variables keep their `$`, properties lose it (php.py): `$this->name` and `self::$name` use the definition `private $name`.

; --- definitions

(class_declaration name: (name) @name (base_clause (_) @bases)) @def.class
(class_declaration name: (name) @name (class_interface_clause (_) @bases)) @def.class
(class_declaration name: (name) @name body: (declaration_list (use_declaration [(name) (qualified_name)] @bases))) @def.class
(class_declaration name: (name) @name body: (_) @body) @def.class
(interface_declaration name: (name) @name (base_clause (_) @bases)) @def.interface
(interface_declaration name: (name) @name body: (_) @body) @def.interface
(trait_declaration name: (name) @name body: (_) @body) @def.interface
(enum_declaration name: (name) @name (class_interface_clause (_) @bases)) @def.enum
(enum_declaration name: (name) @name body: (_) @body) @def.enum
(enum_case name: (name) @name) @def.constant
(function_definition name: (name) @name body: (_) @body) @def.function
(method_declaration name: (name) @name body: (_)? @body) @def.method
(const_declaration (const_element . (name) @name)) @def.constant
(property_declaration (property_element name: (variable_name) @name)) @def.variable
(property_promotion_parameter name: (variable_name) @name) @def.variable
(function_call_expression
  function: (name) @h.define
  arguments: (arguments . (argument (string (string_content) @name)))
  (#eq? @h.define "define")) @def.constant

; --- imports

(namespace_use_declaration (namespace_use_clause
  (qualified_name prefix: (namespace_name) @import.module (name) @import.name .) alias: (name)? @import.alias)) @import
(namespace_use_declaration (namespace_use_clause . (name) @import.module alias: (name)? @import.alias)) @import
(namespace_use_declaration
  (namespace_name) @import.module
  body: (namespace_use_group (namespace_use_clause . (name) @import.name alias: (name)? @import.alias))) @import
(require_once_expression (string (string_content) @import.module)) @import
(require_expression (string (string_content) @import.module)) @import
(include_once_expression (string (string_content) @import.module)) @import
(include_expression (string (string_content) @import.module)) @import
(namespace_definition name: (_) @skip)

; --- scopes and bound names

[(arrow_function) (anonymous_function)] @scope

(simple_parameter name: (variable_name) @local)
(variadic_parameter name: (variable_name) @local)
(property_promotion_parameter name: (variable_name) @local)
(assignment_expression left: (variable_name) @local @use.write)
(reference_assignment_expression left: (variable_name) @local @use.write)
(list_literal (variable_name) @local @use.write)
(foreach_statement (_) (variable_name) @local)
(foreach_statement (pair (variable_name) @local))
(catch_clause name: (variable_name) @local)

; --- uses: calls

(function_call_expression function: (name) @use.call)
(function_call_expression function: (qualified_name prefix: (namespace_name) @receiver (name) @use.call .))
(member_call_expression object: (_) @receiver name: (name) @use.call)
(nullsafe_member_call_expression object: (_) @receiver name: (name) @use.call)
(scoped_call_expression scope: (_) @receiver name: (name) @use.call)
(object_creation_expression . (name) @use.call)
(object_creation_expression . (qualified_name prefix: (namespace_name) @receiver (name) @use.call .))

; --- uses: writes

(assignment_expression left: (member_access_expression object: (_) @receiver name: (name) @use.write))
(assignment_expression left: (nullsafe_member_access_expression object: (_) @receiver name: (name) @use.write))
(assignment_expression left: (scoped_property_access_expression scope: (_) @receiver name: (variable_name) @use.write))
(augmented_assignment_expression left: (variable_name) @use.write)
(augmented_assignment_expression left: (member_access_expression object: (_) @receiver name: (name) @use.write))
(update_expression argument: (variable_name) @use.write)
(update_expression argument: (member_access_expression object: (_) @receiver name: (name) @use.write))
(update_expression argument: (scoped_property_access_expression scope: (_) @receiver name: (variable_name) @use.write))

; --- uses: types and reads

(attribute (name) @use.type)
(named_type (name) @use.type)
(named_type (qualified_name prefix: (namespace_name) @receiver (name) @use.type .))
(base_clause (name) @use.type)
(class_interface_clause (name) @use.type)
(base_clause (qualified_name (name) @use.type .))
(class_interface_clause (qualified_name (name) @use.type .))
(use_declaration (name) @use.type)
(scoped_call_expression scope: (name) @use.type)
(class_constant_access_expression . (name) @use.type)
(binary_expression operator: "instanceof" right: (name) @use.type)
(class_constant_access_expression (_) @receiver . (name) @use.read .)
(member_access_expression object: (_) @receiver name: (name) @use.read)
(nullsafe_member_access_expression object: (_) @receiver name: (name) @use.read)
(scoped_property_access_expression scope: (_) @receiver name: (variable_name) @use.read)
(qualified_name prefix: (namespace_name) @receiver (name) @use.read .)
(namespace_name (name) @skip)
(variable_name (name) @skip)
(variable_name) @use.read
(name) @use.read
