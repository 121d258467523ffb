// Settings: each value with its origin, changed in your file or the project's with the checks of `lorelog config`.

import { html, useState, useLoad, useKeys, useRef, useEffect, Chip, Copy, ErrorNotice, Notice, visible } from "../ui.js";
import { call, revision, project } from "../api.js";
import { route, refine, say } from "../state.js";
import { t } from "../texts.js";

const s = t.settings;

export default function SettingsView() {
  const { q = "", changed = "", edit = "" } = route.value.query;
  const [version, setVersion] = useState(0);
  const { data, error } = useLoad((abort) => call("settings.list", {}, abort), [version, revision.value.settings, project.value]);
  const field = useRef(null);
  useKeys({ "/": () => field.current?.focus(), Escape: () => refine({ edit: "" }) });
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (setting) => words.every((word) => `${setting.key} ${setting.meaning}`.toLowerCase().includes(word)) && (!changed || setting.layer !== "default");
  const shown = (data?.settings || []).filter(matches);
  const sections = [...new Set(shown.map((setting) => setting.section))];
  return html`<div class="settings"><header class="settings-head"><div class="line"><h1>${t.nav.settings}</h1><span class="grow"></span>${data && html`<${Copy} text=${data.user_file} title=${s.yours}>${visible(data.user_file)}<//>`}</div>
      <div class="filters"><input ref=${field} type="search" aria-label=${s.search} placeholder=${s.search} value=${q} onInput=${(event) => refine({ q: event.currentTarget.value })} />
        <label class="inline"><input type="checkbox" checked=${Boolean(changed)} onChange=${(event) => refine({ changed: event.currentTarget.checked ? "yes" : "" })} />${s.onlyChanged}</label>
        ${data && html`<span class="muted small">${s.counts(shown.length, data.settings.filter((setting) => setting.layer !== "default").length)}</span>`}</div></header>
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${data && !shown.length && html`<p class="empty muted">${t.search.nothing}</p>`}
    ${sections.map((section) => html`<section class="setting-section" key=${section} aria-labelledby=${`section-${section}`}><h2 id=${`section-${section}`}>${visible(section)}</h2>
      ${shown.filter((setting) => setting.section === section).map((setting) => html`<${Setting} key=${setting.key} setting=${setting} files=${data} open=${edit === setting.key} onChanged=${() => setVersion(version + 1)} />`)}</section>`)}
  </div>`;
}

const LAYER_KINDS = { user: "type", project: "type", environment: "warn", flag: "warn" };
const shownValue = (setting) => (setting.value === "" || setting.value?.length === 0 ? s.empty : setting.text);

function Setting({ setting, files, open, onChanged }) {
  const name = setting.key.slice(setting.section.length + 1);
  return html`<div class="setting ${setting.layer === "default" ? "" : "changed"}" id=${`setting-${setting.key}`}>
    <div class="setting-line"><code class="setting-key" title=${setting.key}>${visible(name)}</code>
      <span class="setting-value mono ${shownValue(setting) === s.empty ? "muted" : ""}">${visible(shownValue(setting))}</span>
      <${Chip} kind=${LAYER_KINDS[setting.layer] || ""} title=${visible(setting.origin)}>${setting.layer === "environment" ? setting.variable : s.layers[setting.layer]}<//>
      <button type="button" class="small" aria-expanded=${open} aria-label=${`${open ? t.cancel : s.change} ${setting.key}`} onClick=${() => refine({ edit: open ? "" : setting.key })}>${open ? t.cancel : s.change}</button></div>
    <p class="setting-meaning muted"><${Meaning} text=${setting.meaning} /></p>
    ${open && html`<${Editor} setting=${setting} files=${files} onChanged=${onChanged} />`}
  </div>`;
}

// The declarations mark names with backquotes.
const Meaning = ({ text }) => text.split("`").map((part, index) => (index % 2 ? html`<code>${visible(part)}</code>` : visible(part)));

function Editor({ setting, files, onChanged }) {
  const [value, setValue] = useState(setting.text);
  const [local, setLocal] = useState(setting.layer === "project");
  const [error, setError] = useState(null);
  const [notes, setNotes] = useState([]);
  const form = useRef(null);
  useEffect(() => form.current.querySelector("input, select")?.focus(), []);
  const write = async (args) => {
    try {
      const reply = await call("settings.set", { key: setting.key, local, ...args });
      setError(null);
      setNotes(reply.notes);
      onChanged();
      setValue(reply.setting.text);
      say(args.value === undefined ? (reply.changed ? s.sayRemoved(setting.key) : s.sayNothing(setting.key)) : s.saySaved(setting.key));
      if (!reply.notes.length) refine({ edit: "" });
    } catch (failure) {
      setError(failure);
    }
  };
  const submit = (event) => {
    event.preventDefault();
    write({ value });
  };
  return html`<form class="setting-form" ref=${form} onSubmit=${submit}>
    <div class="line"><${Value} setting=${setting} value=${value} onChange=${setValue} />
      <button class="primary">${t.save}</button>
      ${setting.layer !== "default" && html`<button type="button" onClick=${() => write({})} title=${s.removeHelp}>${s.remove}</button>`}</div>
    ${setting.project_allowed && html`<div class="line small" role="radiogroup" aria-label=${s.where}>${[[false, s.forMe, files.user_file], [true, s.forProject, files.project_file]].map(([of, text, file]) => html`<label class="inline"><input type="radio" name="where" checked=${local === of} onChange=${() => setLocal(of)} />${text} <span class="mono">${visible(file)}</span></label>`)}</div>`}
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${notes.map((note) => html`<${Notice} kind="warn">${visible(note)}<//>`)}
    <p class="muted small">${s.accepts(visible(setting.accepts))} · ${s.default(visible(Array.isArray(setting.default) ? JSON.stringify(setting.default) : setting.default === "" ? s.empty : String(setting.default)))} · <span class="mono">${setting.variable}</span>${setting.layer === "environment" ? html` · ${s.overridden}` : null}</p>
  </form>`;
}

// Every value is sent as the text that `lorelog config set` takes, and checked there.
function Value({ setting, value, onChange }) {
  const label = s.valueOf(setting.key);
  const choices = setting.kind === "true or false" ? ["true", "false"] : setting.choices;
  if (choices.length && setting.kind !== "list of texts") {
    const all = choices.includes(value) ? choices : [value, ...choices];
    return html`<select aria-label=${label} value=${value} onChange=${(event) => onChange(event.currentTarget.value)}>${all.map((choice) => html`<option value=${choice}>${choice === "" ? s.empty : choice}</option>`)}</select>`;
  }
  return html`<input class="mono grow" aria-label=${label} value=${value} inputmode=${setting.kind.includes("number") ? "decimal" : "text"} autocomplete="off" spellcheck=${false} onInput=${(event) => onChange(event.currentTarget.value)} />`;
}
