// Everything by name: the views, the verbs of the memory that is shown, and a search. Keyboard first; the focus stays in the field.

import { html, useState, useEffect, useLayoutEffect, useRef, useLoad, Icon, Inline, Type, baseName, titleOf } from "./ui.js";
import { call, project, session } from "./api.js";
import { everywhere, openMemory, theme, go, placeOf } from "./state.js";
import { t } from "./texts.js";

const RESULTS = 6;
const PAUSE_MS = 120;

// Words of the name in any order, each at the start of a word; "sh ag" finds "Shown to agents".
function matches(name, wanted) {
  const words = name.toLowerCase().split(/[^\p{L}\p{N}]+/u);
  return wanted.toLowerCase().split(/\s+/).filter(Boolean).every((piece) => words.some((word) => word.startsWith(piece)));
}

function commands({ names, onHelp, onTheme }) {
  const to = (name, icon, view, path = []) => ({ group: "views", name, icon, act: () => go(view, path) });
  return [
    ...(openMemory.value?.verbs || []).map((verb) => ({ ...verb, group: "memory" })),
    ...names.map((name, index) => ({ ...to(t.nav[name], name, ...placeOf(name)), key: String(index + 1) })),
    ...Object.entries(t.told.tabs).filter(([part]) => part).map(([part, name]) => to(name, "told", "told", [part])),
    ...Object.entries(t.records.tabs).map(([part, name]) => to(`${t.nav.records}: ${name}`, "records", "records", [part])),
    { group: "page", name: t.palette.theme({ system: "dark", dark: "light", light: "system" }[theme.value]), icon: "theme", act: onTheme },
    everywhere.value
      ? { group: "page", name: t.palette.onlyProject(baseName(project.value || session.value?.project || "")), icon: "project", act: () => { everywhere.value = false; } }
      : { group: "page", name: t.allProjects, icon: "project", act: () => { everywhere.value = true; } },
    { group: "page", name: t.keys, icon: "keys", key: "?", act: onHelp },
  ];
}

async function searchFor(text, abort) {
  await new Promise((wake) => setTimeout(wake, PAUSE_MS));
  abort.throwIfAborted();
  const reply = await call("memory.search", { query: text, k: RESULTS, token_budget: 0, all_projects: everywhere.value }, abort);
  return { text, hits: reply.nothing_relevant ? [] : reply.hits };
}

export function Palette({ names, typed, onClose, onHelp, onTheme }) {
  const [text, setText] = useState(typed);
  const [at, setAt] = useState(0);
  const dialog = useRef(null);
  const wanted = text.trim();
  const { data } = useLoad((abort) => (wanted.length > 1 ? searchFor(wanted, abort) : null), [wanted]);
  useLayoutEffect(() => { // before the next letter is typed
    const before = document.activeElement;
    dialog.current.showModal();
    return () => before?.focus?.();
  }, []);
  useEffect(() => { dialog.current.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }); }, [at]);
  const named = commands({ names, onHelp, onTheme }).filter(({ name }) => matches(name, wanted));
  const found = wanted && data ? data.hits.map((hit) => ({ group: "results", hit, icon: "memory", act: () => go("memory", [hit.anchor?.memory || hit.id], { q: wanted }) })) : [];
  const search = wanted ? [{ group: "results", name: t.palette.search(wanted), icon: "search", act: () => go("search", [], { q: wanted }) }] : [];
  const items = [...named, ...search, ...found];
  const chosen = Math.min(at, items.length - 1);
  const choose = (item) => {
    dialog.current.close(); // the focus goes back before the verb opens a dialog of its own
    onClose();
    item?.act();
  };
  const pressed = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key] || (event.ctrlKey && { n: 1, p: -1 }[event.key]);
    if (step) setAt((chosen + step + items.length) % Math.max(1, items.length));
    else if (event.key === "Enter") choose(items[chosen]);
    else return;
    event.preventDefault();
  };
  const groups = Object.entries(t.palette.groups).map(([group, title]) => ({ group, title, members: items.filter((item) => item.group === group) })).filter(({ members }) => members.length);
  return html`<dialog ref=${dialog} class="palette" aria-label=${t.palette.title} onClose=${onClose} onClick=${(event) => event.target === dialog.current && dialog.current.close()}>
    <div class="palette-box"><${Icon} name="search" /><input type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-autocomplete="list" aria-activedescendant=${items.length ? `palette-${chosen}` : null}
      aria-label=${t.palette.title} placeholder=${t.palette.placeholder} autocomplete="off" spellcheck=${false} maxlength="500" autofocus value=${text} onInput=${(event) => { setText(event.target.value); setAt(0); }} onKeyDown=${pressed} /></div>
    <div id="palette-list" role="listbox" aria-label=${t.palette.title} tabIndex="-1">${groups.map(({ group, title, members }) => html`<div key=${group} role="group" aria-labelledby=${`palette-${group}`}><p id=${`palette-${group}`} class="palette-group" role="presentation">${title}</p>
      ${members.map((item) => {
        const index = items.indexOf(item);
        return html`<div key=${index} id=${`palette-${index}`} role="option" class="palette-item ${item.danger ? "danger" : ""}" aria-selected=${index === chosen} onClick=${() => choose(item)} onPointerMove=${() => index !== chosen && setAt(index)}>
          <${Icon} name=${item.icon} /><span class="cut grow">${item.hit ? html`<${Inline} text=${titleOf(item.hit)} />` : item.name}${item.does && html` <span class="muted small">${item.does}</span>`}</span>${item.hit && html`<${Type} type=${item.hit.type} />`}${item.key && html`<kbd aria-hidden="true">${item.key}</kbd>`}</div>`;
      })}</div>`)}</div>
    <p class="palette-foot muted" role="status">${items.length ? t.palette.foot : t.palette.nothing}</p>
  </dialog>`;
}
