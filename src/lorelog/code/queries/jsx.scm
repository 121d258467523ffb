; JSX, for JavaScript and TSX: a tag calls a component; tags in lower case are HTML elements.

(jsx_opening_element name: (identifier) @use.call (#match? @use.call "^[A-Z_$]"))
(jsx_self_closing_element name: (identifier) @use.call (#match? @use.call "^[A-Z_$]"))
(jsx_opening_element name: (member_expression object: (_) @receiver property: (property_identifier) @use.call))
(jsx_self_closing_element name: (member_expression object: (_) @receiver property: (property_identifier) @use.call))
(jsx_opening_element name: (identifier) @skip (#match? @skip "^[a-z]"))
(jsx_self_closing_element name: (identifier) @skip (#match? @skip "^[a-z]"))
(jsx_closing_element) @skip
