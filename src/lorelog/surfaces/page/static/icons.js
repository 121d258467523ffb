// One family of icons: 16 by 16, drawn with one line of 1.5, in the colour of the text around them.

import { h } from "./vendor/preact.js";

const PATHS = {
  home: "M2.5 7.5 8 2.8l5.5 4.7M4 6.8V13h8V6.8M6.8 13V9.5h2.4V13",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9ZM10.3 10.3l3.2 3.2",
  timeline: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2ZM8 4.8V8l2.3 1.5",
  told: "M2.5 3.5h11v7.5H8.3L5 13.5V11H2.5ZM5.2 6.2h5.6M5.2 8.5h3.6",
  records: "M3 2.5h10v11H3ZM5.5 8l1.7 1.7 3.3-3.5",
  health: "M1.8 8.5h2.9l1.7-4.7 3 8.4 1.8-3.7h3",
  settings: "M2.5 4.8h5.3M11.3 4.8h2.2M2.5 11.2h2.2M8.2 11.2h5.3M9.5 3a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6ZM6.4 9.4a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6Z",
  inbox: "M2.5 9 4.3 3.5h7.4L13.5 9v4h-11ZM2.5 9h3.3l.8 1.7h2.8l.8-1.7h3.3",
  memory: "M4 2h5.5L12.5 5v9H4ZM9.3 2v3.2h3.2M6.3 8.2h4M6.3 10.8h2.7",
  theme: "M8 2.3a5.7 5.7 0 1 0 0 11.4ZM8 2.3a5.7 5.7 0 0 1 0 11.4",
  keys: "M1.8 4h12.4v8H1.8ZM4.3 6.5h.01M6.8 6.5h.01M9.3 6.5h.01M11.7 6.5h.01M5 9.5h6",
  edit: "M3 13l.7-2.9 7-7a1.3 1.3 0 0 1 1.9 0l.3.3a1.3 1.3 0 0 1 0 1.9l-7 7ZM9.7 4.2l2.2 2.2",
  delete: "M3 4.3h10M6.3 4.3V2.7h3.4v1.6M4.3 4.3l.5 9h6.4l.5-9M6.8 7v3.7M9.2 7v3.7",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  close: "M4 4l8 8M12 4l-8 8",
  back: "M13 8H3.2M7 4 3 8l4 4",
  next: "M6 3.5 10.5 8 6 12.5",
  open: "M9 2.5h4.5V7M13.5 2.5 7.8 8.2M11.5 9v4.5h-9v-9H7",
  copy: "M5.5 5.5h8v8h-8ZM3.5 10.5h-1v-8h8v1",
  replace: "M2.5 6h9M8.8 3.2 11.6 6 8.8 8.8M13.5 11h-9M7.2 8.7 4.4 11l2.8 2.7",
  expire: "M2.5 3.8h11v9.7h-11ZM2.5 6.8h11M5.3 2.3v3M10.7 2.3v3",
  forget: "M8 2.5 14 13.2H2ZM8 6.5v3M8 11.4h.01",
  project: "M2 4h4.3l1.4 1.7H14v7.3H2Z",
  session: "M2.5 3h11v10h-11ZM5 6.3 6.8 8 5 9.7M8.3 10h2.7",
};

// Decoration beside a text, or inside of a control that has a name: never read aloud.
export const Icon = ({ name }) => h("svg", { class: `icon i-${name}`, viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" }, h("path", { d: PATHS[name] }));
