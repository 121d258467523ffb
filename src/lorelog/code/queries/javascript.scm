; JavaScript alone; jsx.scm and ecmascript.scm follow.

(class_declaration name: (identifier) @name (class_heritage (_) @bases)? body: (_) @body) @def.class
(field_definition
  property: [(property_identifier) (private_property_identifier)] @name
  value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @def.method
(field_definition property: [(property_identifier) (private_property_identifier)] @name) @def.variable

(formal_parameters (identifier) @local)
(formal_parameters (assignment_pattern left: (identifier) @local))
(formal_parameters (array_pattern (identifier) @local))

(class_heritage (identifier) @use.type)
(class_heritage (member_expression object: (_) @receiver property: (property_identifier) @use.type))
