// Settings: first the agents and the ten that people change, then all. Each value has its origin, and is changed in your file or the
// project's with the checks of `lorelog config`.

import { html, useState, useLoad, useKeys, useRef, useEffect, Chip, Copy, ErrorNotice, Notice, Skeleton, captureOf, visible, baseName } from "../ui.js";
import { call, revision, project, session } from "../api.js";
import { route, refine, address, say } from "../state.js";
import { t } from "../texts.js";

const s = t.settings;

export default function SettingsView() {
  const { q = "", changed = "", edit = "" } = route.value.query;
  const [version, setVersion] = useState(0);
  const { data, error } = useLoad((abort) => call("settings.list", {}, abort), [version, revision.value.settings, project.value]);
  const field = useRef(null);
  useKeys({ "/": () => field.current?.focus(), Escape: () => refine({ edit: "" }) });
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const named = (setting) => `${setting.key} ${setting.meaning} ${s.sections[setting.section] || ""} ${s.first[setting.key]?.[0] || ""}`.toLowerCase();
  const matches = (setting) => words.every((word) => named(setting).includes(word)) && (!changed || setting.layer !== "default");
  const all = data?.settings || [];
  const shown = all.filter(matches);
  const isChanged = (setting) => setting.layer !== "default";
  const isFiltered = Boolean(words.length || changed);
  const first = isFiltered ? [] : Object.keys(s.first).map((key) => all.find((setting) => setting.key === key)).filter(Boolean);
  const rest = shown.filter((setting) => !first.includes(setting));
  const line = (setting, label) => html`<${Setting} key=${setting.key} setting=${setting} label=${label} files=${data} open=${edit === setting.key} onChanged=${() => setVersion(version + 1)} />`;
  const list = (section) => rest.filter((setting) => setting.section === section);
  return html`<div class="settings"><header class="settings-head"><div class="line"><h1>${t.nav.settings}</h1><span class="grow"></span>${data && html`<${Copy} text=${data.user_file} title=${`${s.yours}: ${visible(data.user_file)}`}>${visible(shortFile(data.user_file))}<//>`}</div>
      <div class="filters"><input ref=${field} type="search" aria-label=${s.search} placeholder=${s.search} value=${q} onInput=${(event) => refine({ q: event.currentTarget.value })} />
        <label class="inline"><input type="checkbox" checked=${Boolean(changed)} onChange=${(event) => refine({ changed: event.currentTarget.checked ? "yes" : "" })} />${s.onlyChanged}</label>
        ${data && html`<span class="muted small" aria-live="polite">${s.counts(shown.length, all.length, all.filter(isChanged).length)}</span>`}</div></header>
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${!data && !error && html`<${Skeleton} lines=${12} />`}
    ${data && !shown.length && html`<p class="empty muted">${t.search.nothing}</p>`}
    ${data && !isFiltered && html`<${Agents} />`}
    ${first.length > 0 && html`<section class="setting-section" aria-label=${s.most}>${first.map((setting) => line(setting, s.first[setting.key]))}</section><h2 class="all-settings">${s.all}</h2>`}
    ${[...new Set(rest.map((setting) => setting.section))].map((section) => (isFiltered
      ? html`<section class="setting-section" key=${section} aria-labelledby=${`section-${section}`}><h2 id=${`section-${section}`}>${sectionName(section)}</h2>${list(section).map((setting) => line(setting))}</section>`
      : html`<${Group} key=${section} section=${section} settings=${list(section)} edit=${edit}>${list(section).map((setting) => line(setting))}<//>`))}
  </div>`;
}

function Group({ section, settings, edit, children }) {
  const [open, setOpen] = useState(settings.some((setting) => setting.key === edit));
  const changed = settings.filter((setting) => setting.layer !== "default").length;
  return html`<details class="setting-section" open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary><h3>${sectionName(section)}</h3> <span class="muted small">${s.count(settings.length, changed)}</span></summary>${children}</details>`;
}

const sectionName = (section) => s.sections[section] || visible(section);

// Which agents have lorelog's hooks: no setting, but the first thing to change. A command is copied, because an installer asks at a terminal.
function Agents() {
  const { data } = useLoad((abort) => call("session.hosts", {}, abort), [revision.value.sessions, project.value]);
  const here = (data?.hosts || []).filter((host) => host.found || host.installed !== "missing" || host.last_capture);
  return html`<section class="setting-section setting-agents" aria-labelledby="section-agents"><h2 id="section-agents">${s.agents}</h2>
    <p class="setting-meaning muted">${s.agentsMeaning} <a href=${address("health")}>${t.health.title}</a></p>
    ${!data && html`<${Skeleton} lines=${3} />`}
    ${data && !here.length && html`<p class="muted">${s.noAgents}</p>`}
    ${here.length > 0 && html`<ul class="plain-list">${here.map((host) => html`<li class="line"><strong>${visible(host.title)}</strong><${Chip} kind=${{ current: "trust", native: "trust", stale: "warn" }[host.installed] || ""}>${t.health.installed[host.installed] || host.installed}<//>
      <span class="muted small">${captureOf(host)}</span><span class="grow"></span>
      ${["missing", "stale"].includes(host.installed) && html`<${Copy} text=${`lorelog hosts install ${host.host}`} />`}</li>`)}</ul>`}
  </section>`;
}

const LAYER_KINDS = { user: "type", project: "type", environment: "warn", flag: "warn" };
const said = (setting, value) => (value === "" || value?.length === 0 ? s.empty : setting.kind === "true or false" ? s.switched[value] : value);
const shownValue = (setting) => said(setting, setting.value?.length === 0 ? "" : setting.text);

// Without the path to the user's home, the project or the folder of lorelog.
function shortFile(file) {
  const below = (folder) => folder && file.startsWith(`${folder}/`) && baseName(folder) + file.slice(folder.length);
  const short = file.replace(/^\/(root|(home|Users)\/[^/]+)(?=\/)/, "~");
  return short !== file ? short : below(project.value || session.value?.project) || below(session.value?.home) || file;
}

// One of the first ten has its name in words, with its key below; its own meaning says what a person decides.
function Setting({ setting, label, files, open, onChanged }) {
  const name = setting.key.slice(setting.section.length + 1);
  return html`<div class="setting ${setting.layer === "default" ? "" : "changed"}" id=${`setting-${setting.key}`}>
    <div class="setting-line">${label ? html`<h2 class="setting-name">${label[0]}</h2>` : html`<code class="setting-key" title=${setting.key}>${visible(name)}</code>`}
      <span class="setting-value mono ${shownValue(setting) === s.empty ? "muted" : ""}">${visible(shownValue(setting))}</span>
      <${Chip} kind=${LAYER_KINDS[setting.layer] || ""} title=${visible(setting.origin)}>${setting.layer === "environment" ? setting.variable : s.layers[setting.layer]}<//>
      <button type="button" class="small" aria-expanded=${open} aria-label=${`${open ? t.cancel : s.change} ${setting.key}`} onClick=${() => refine({ edit: open ? "" : setting.key })}>${open ? t.cancel : s.change}</button></div>
    <p class="setting-meaning muted"><${Meaning} text=${label ? label[1] : setting.meaning} />${label && html` <code class="setting-full-key">${setting.key}</code>`}</p>
    ${label && open && html`<p class="setting-meaning muted"><${Meaning} text=${setting.meaning} /></p>`}
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
    ${setting.project_allowed && html`<div class="line small" role="radiogroup" aria-label=${s.where}>${[[false, s.forMe, files.user_file], [true, s.forProject, files.project_file]].map(([of, text, file]) => html`<label class="inline"><input type="radio" name="where" checked=${local === of} onChange=${() => setLocal(of)} />${text} <span class="mono" title=${visible(file)}>${visible(shortFile(file))}</span></label>`)}</div>`}
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${notes.map((note) => html`<${Notice} kind="warn">${visible(note)}<//>`)}
    <p class="muted small">${s.accepts(visible(setting.accepts.replace("true or false", "on or off")))} · ${s.default(visible(Array.isArray(setting.default) ? JSON.stringify(setting.default) : String(said(setting, setting.default))))} · <span class="mono">${setting.variable}</span>${setting.layer === "environment" ? html` · ${s.overridden}` : null}</p>
  </form>`;
}

// Every value is sent as the text that `lorelog config set` takes, and checked there.
function Value({ setting, value, onChange }) {
  const label = s.valueOf(setting.key);
  const choices = setting.kind === "true or false" ? ["true", "false"] : setting.choices;
  if (choices.length && setting.kind !== "list of texts") {
    const all = choices.includes(value) ? choices : [value, ...choices];
    return html`<select aria-label=${label} value=${value} onChange=${(event) => onChange(event.currentTarget.value)}>${all.map((choice) => html`<option value=${choice}>${said(setting, choice)}</option>`)}</select>`;
  }
  return html`<input class="mono grow" aria-label=${label} value=${value} inputmode=${setting.kind.includes("number") ? "decimal" : "text"} autocomplete="off" spellcheck=${false} onInput=${(event) => onChange(event.currentTarget.value)} />`;
}
