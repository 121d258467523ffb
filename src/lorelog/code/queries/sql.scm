; SQL. Tables and views are classes, their columns variables; a changed table is a write, a selected one a read.

(create_table (object_reference schema: (identifier)? @of name: (identifier) @name) (column_definitions)? @body) @def.class
(create_view (object_reference schema: (identifier)? @of name: (identifier) @name)) @def.class
(create_materialized_view (object_reference schema: (identifier)? @of name: (identifier) @name)) @def.class
(alter_table (object_reference name: (identifier) @of) (add_column (column_definition name: (identifier) @name) @def.variable))
(column_definition name: (identifier) @name) @def.variable
(create_function (object_reference schema: (identifier)? @of name: (identifier) @name) (function_body)? @body) @def.function
(create_trigger (keyword_trigger) . (object_reference schema: (identifier)? @of name: (identifier) @name)) @def.function
(create_type (object_reference schema: (identifier)? @of name: (identifier) @name) (keyword_enum)) @def.enum
(create_type (object_reference schema: (identifier)? @of name: (identifier) @name)) @def.type
(create_sequence (object_reference schema: (identifier)? @of name: (identifier) @name)) @def.variable
(create_index column: (identifier) @name) @def.variable
(create_schema (identifier) @name) @def.module

[(statement) (create_function)] @scope
(relation alias: (identifier) @local)
(cte . (identifier) @local)
(function_argument . (identifier) @local)

(invocation (object_reference schema: (identifier)? @receiver name: (identifier) @use.call))
(create_trigger (keyword_execute) (_) . (object_reference schema: (identifier)? @receiver name: (identifier) @use.call))
(insert (object_reference schema: (identifier)? @receiver name: (identifier) @use.write))
(insert (list (column (identifier) @use.write)))
(update (relation (object_reference schema: (identifier)? @receiver name: (identifier) @use.write)))
(assignment left: (field name: (identifier) @use.write))
(statement (delete) (from (object_reference schema: (identifier)? @receiver name: (identifier) @use.write)))
(alter_table (object_reference schema: (identifier)? @receiver name: (identifier) @use.write))
(drop_table (object_reference schema: (identifier)? @receiver name: (identifier) @use.write))
(column_definition type: (object_reference name: (identifier) @use.type))
(function_language) @skip
(field (object_reference) @receiver name: (identifier) @use.read)
(object_reference schema: (identifier) @receiver name: (identifier) @use.read)
(identifier) @use.read
