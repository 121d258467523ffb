; The range of a TypeScript definition with `declare`. Last, so that these patterns do not decide its kind.
(ambient_declaration (_ name: (_) @name)) @h.ambient @def.variable
(ambient_declaration (_ (variable_declarator name: (identifier) @name))) @h.ambient @def.variable
(export_statement declaration: (ambient_declaration (_ name: (_) @name))) @h.export @def.variable
