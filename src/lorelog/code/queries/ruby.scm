; Ruby. Calls that define something (attr_reader, define_method, Struct.new) are told by the name of the method.

; --- definitions

(class name: (constant) @name superclass: (superclass (_) @bases)) @def.class
(class name: (constant) @name body: (_)? @body) @def.class
(class name: (scope_resolution scope: (_)? @of name: (constant) @name) superclass: (superclass (_) @bases)) @def.class
(class name: (scope_resolution scope: (_)? @of name: (constant) @name) body: (_)? @body) @def.class
(module name: (constant) @name body: (_)? @body) @def.module
(module name: (scope_resolution scope: (_)? @of name: (constant) @name) body: (_)? @body) @def.module
(class name: (constant) @name body: (body_statement (call
  !receiver method: (identifier) @_mixes arguments: (argument_list [(constant) (scope_resolution)] @bases)))
  (#any-of? @_mixes "include" "prepend" "extend")) @def.class

(method name: (_) @name body: (_)? @body) @def.function
(singleton_method object: (constant) @of name: (_) @name body: (_)? @body) @def.method
(singleton_method name: (_) @name body: (_)? @body) @def.function
(alias name: (_) @name) @def.function
(call !receiver method: (identifier) @_field arguments: (argument_list (simple_symbol) @name)
  (#any-of? @_field "attr_accessor" "attr_reader" "attr_writer" "cattr_accessor" "mattr_accessor")) @def.variable
; `alias_method :new, :old` defines one method
(call !receiver method: (identifier) @_method arguments: (argument_list . (simple_symbol) @name)
  (#any-of? @_method "define_method" "alias_method" "delegate" "scope")) @def.method

(assignment left: (constant) @name right: (call receiver: (constant) @_struct method: (identifier))
  (#any-of? @_struct "Struct" "Class" "Data" "Module")) @def.class
(assignment left: (constant) @name) @def.constant
(assignment left: (scope_resolution scope: (_)? @of name: (constant) @name)) @def.constant
(assignment left: (global_variable) @name) @def.variable
(assignment left: [(instance_variable) (class_variable)] @name) @def.variable
(operator_assignment left: [(instance_variable) (class_variable)] @name operator: "||=") @def.variable

; --- imports

(call !receiver method: (identifier) @_method arguments: (argument_list . (string (string_content) @import.module))
  (#any-of? @_method "require" "require_relative" "load" "autoload")) @import

; --- scopes and bound names

[(block) (do_block) (lambda) (method) (singleton_method)] @scope

(method_parameters (identifier) @local)
(block_parameters (identifier) @local)
(lambda_parameters (identifier) @local)
(destructured_parameter (identifier) @local)
(optional_parameter name: (identifier) @local)
(splat_parameter name: (identifier) @local)
(keyword_parameter name: (identifier) @local)
(hash_splat_parameter name: (identifier) @local)
(block_parameter name: (identifier) @local)
(assignment left: (identifier) @local @use.write)
(operator_assignment left: (identifier) @local @use.write)
(left_assignment_list (identifier) @local @use.write)
(exception_variable (identifier) @local)
(for pattern: (identifier) @local)

; --- uses

(call receiver: (_) @receiver method: [(identifier) (constant)] @use.call)
(call !receiver method: [(identifier) (constant)] @use.call)
(assignment left: (call receiver: (_) @receiver method: (identifier) @use.write))
(operator_assignment left: (call receiver: (_) @receiver method: (identifier) @use.write))
(assignment left: [(instance_variable) (class_variable) (global_variable)] @use.write)
(operator_assignment left: [(instance_variable) (class_variable) (global_variable)] @use.write)
(superclass (constant) @use.type)
(superclass (scope_resolution scope: (_)? @receiver name: (constant) @use.type))
(exceptions (constant) @use.type)
(exceptions (scope_resolution scope: (_)? @receiver name: (constant) @use.type))
(scope_resolution scope: (_)? @receiver name: (constant) @use.read)
(alias alias: (_) @use.read)
(call !receiver method: (identifier) @use.call)
[(instance_variable) (class_variable) (global_variable)] @use.read
(constant) @use.read
(identifier) @use.read
