import { html } from "../ui.js";
import { t } from "../texts.js";

export default function View() {
  return html`<h1>${t.nav.settings}</h1>`;
}
