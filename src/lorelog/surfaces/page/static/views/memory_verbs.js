// The dialogs that change a memory. Every change is an operation; what destroys is confirmed by typing the id.

import { html, useState, useLoad, isTime, Dialog, Notice, ErrorNotice, Markdown, visible, shortId, plural } from "../ui.js";
import { call, callConfirmed } from "../api.js";
import { go, say } from "../state.js";
import { t } from "../texts.js";

// Run a change; keep the dialog open with the error if it fails.
function useChange(onClose) {
  const [state, setState] = useState({ busy: false, error: null });
  const run = async (change) => {
    setState({ busy: true, error: null });
    try {
      await change();
      onClose();
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  return { ...state, run };
}

const submit = (act) => (event) => {
  event.preventDefault();
  act();
};

const saveKey = (act) => (event) => {
  if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) {
    event.preventDefault();
    act();
  }
};

const ANCHOR = /^(?:(#{1,6}[^\n]*\n)(\s*))?([ \t]*<!--[\s\S]*?-->[ \t]*\n?)/;

// A section without the comment that keeps its identity, nor the time above it; and what puts them back where they were.
export function withoutAnchor(content) {
  const [whole, heading = "", blank = "", comment] = content.match(ANCHOR) || [];
  if (!whole) return { text: content, restore: (text) => text };
  const rest = content.slice(whole.length);
  if (isTime(heading.replace(/^#+\s*/, ""))) return { text: rest, restore: (text) => heading + blank + comment + text };
  const restore = (text) => {
    const own = text.match(/^#{1,6}[^\n]*(?:\n|$)/)?.[0] || "";
    return own + (own && !own.endsWith("\n") ? "\n" : "") + blank + comment + text.slice(own.length);
  };
  return { text: heading + rest, restore };
}

export function EditDialog({ id, section, onClose }) {
  const [before, setBefore] = useState(section.content);
  const shown = withoutAnchor(before);
  const [text, setText] = useState(shown.text);
  const [current, setCurrent] = useState(null);
  const { busy, error, run } = useChange(onClose);
  const save = () =>
    run(async () => {
      try {
        const reply = await call("memory.edit", { id, before, text: shown.restore(text) });
        const kinds = Object.keys(reply.redacted).join(", ");
        say(kinds ? t.card.sayRedacted(kinds) : t.card.saySaved);
      } catch (failure) {
        if (failure.code === "changed") {
          const now = await call("memory.expand", { id });
          setCurrent(now.content);
          setBefore(now.content);
        }
        throw failure;
      }
    });
  return html`<${Dialog} title=${t.editing.title} onClose=${onClose} wide>
    <form onSubmit=${submit(save)}>
      <p class="muted mono cut">${visible(section.source)}:${section.start_line}</p>
      ${current !== null && html`<${Notice} kind="warn" title=${t.editing.conflict}><p>${t.editing.conflictWhy}</p><//><h3>${t.editing.current}</h3><pre class="current" tabIndex="0">${visible(shown.text)}</pre>`}
      ${error && error.code !== "changed" && html`<${ErrorNotice} error=${error} />`}
      <label>${current !== null ? t.editing.mine : t.editing.text}
        <textarea class="mono" rows=${Math.max(6, Math.min(16, shown.text.split("\n").length + 2))} value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${saveKey(save)} autofocus></textarea></label>
      <footer><button type="button" onClick=${onClose}>${t.cancel}</button><button type="submit" class="primary" disabled=${busy || text === shown.text}>${current !== null ? t.editing.overwrite : t.save}</button></footer>
    </form><//>`;
}

export function SupersedeDialog({ id, section, onClose }) {
  const [text, setText] = useState("");
  const { busy, error, run } = useChange(onClose);
  const save = () =>
    run(async () => {
      const reply = await call("memory.supersede", { id, text });
      say(t.card.saySuperseded);
      go("memory", [reply.memory || reply.id]);
    });
  return html`<${Dialog} title=${t.superseding.title} onClose=${onClose} wide>
    <form onSubmit=${submit(save)}>
      ${error && html`<${ErrorNotice} error=${error} />`}
      <label>${t.superseding.text}<textarea rows="6" value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${saveKey(save)} autofocus></textarea></label>
      <h3>${t.superseding.was}</h3><div class="quoted"><${Markdown} text=${section.content} /></div>
      <footer><button type="button" onClick=${onClose}>${t.cancel}</button><button type="submit" class="primary" disabled=${busy || !text.trim()}>${t.superseding.save}</button></footer>
    </form><//>`;
}

export function ExpiryDialog({ id, section, onClose }) {
  const [expires, setExpires] = useState(section.lifecycle?.expires || "");
  const [review, setReview] = useState(section.lifecycle?.review_after || "");
  const { busy, error, run } = useChange(onClose);
  const save = () =>
    run(async () => {
      await call("memory.set_expiry", { id, expires: expires.trim() || "never", review_after: review.trim() || "never" });
      say(t.card.sayExpiry);
    });
  return html`<${Dialog} title=${t.expiring.title} onClose=${onClose}>
    <form onSubmit=${submit(save)}>
      ${error && html`<${ErrorNotice} error=${error} />`}
      <label>${t.expiring.expires}<input value=${expires} onInput=${(event) => setExpires(event.target.value)} autofocus /></label>
      <label>${t.expiring.review}<input value=${review} onInput=${(event) => setReview(event.target.value)} /></label>
      <p class="muted small">${t.expiring.help}</p>
      <footer><button type="button" onClick=${onClose}>${t.cancel}</button><button type="submit" class="primary" disabled=${busy}>${t.save}</button></footer>
    </form><//>`;
}

export function ForgetDialog({ id, section, onClose }) {
  const [word] = useState(shortId(section?.id || id)); // the section is gone once it is forgotten
  const [typed, setTyped] = useState("");
  const [files, setFiles] = useState(false);
  const [transcripts, setTranscripts] = useState(false);
  const [receipt, setReceipt] = useState(null);
  const [state, setState] = useState({ busy: false, error: null });
  const choice = { ids: [id], edit_files: files, host_transcripts: transcripts };
  const plan = useLoad((abort) => (receipt ? null : call("memory.forget", { ...choice, dry_run: true }, abort)), [files, transcripts]);
  const forget = async () => {
    setState({ busy: true, error: null });
    try {
      setReceipt(await callConfirmed("memory.forget", { ...choice, confirm: true }, typed.trim()));
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  const leave = () => {
    onClose();
    if (receipt) go("search");
  };
  const reasons = (title, entries) => Object.keys(entries).length > 0 && html`<h3>${title}</h3><ul class="plain-list">${Object.entries(entries).map(([place, why]) => html`<li><code>${visible(place)}</code> <span class="muted">${visible(why)}</span></li>`)}</ul>`;
  if (receipt) {
    return html`<${Dialog} title=${t.forgetting.receipt} onClose=${leave} wide><div class="receipt">
      <${Notice} kind=${receipt.ok ? "good" : "warn"} title=${visible(receipt.message)}><p>${receipt.ok ? t.forgetting.proven : ""}</p><//>
      <dl class="facts"><div><dt>${t.forgetting.receipt}</dt><dd class="mono">${visible(receipt.receipt)}</dd></div><div><dt>Searched</dt><dd>${plural(receipt.searched_files, "file")}</dd></div></dl>
      ${receipt.residues.length > 0 && html`<h3>${t.forgetting.left}</h3><ul class="plain-list">${receipt.residues.map((each) => html`<li><code>${visible(each.path)}</code> ${each.count}</li>`)}</ul>`}
      ${reasons(t.forgetting.unreached, receipt.unreached)}
      <footer><button type="button" class="primary" onClick=${leave}>${t.close}</button></footer></div><//>`;
  }
  const shown = plan.data;
  return html`<${Dialog} title=${t.forgetting.title} onClose=${onClose} wide>
    <form onSubmit=${submit(forget)}>
      <p>${t.forgetting.intro}</p>
      ${(state.error || plan.error) && html`<${ErrorNotice} error=${state.error || plan.error} />`}
      ${shown && html`<h3>${t.forgetting.takes}</h3>
        <ul class="plain-list">${shown.entries.map((entry) => html`<li><code>${visible(entry.source)}:${entry.start_line}–${entry.end_line}</code><p class="muted">${visible(entry.preview)}</p></li>`)}</ul>
        ${reasons(t.forgetting.refused, shown.refused)}${reasons(t.forgetting.unreached, shown.unreached)}
        ${shown.transcripts.length > 0 && html`<p>${t.forgetting.transcripts}</p><ul class="plain-list">${shown.transcripts.map((path) => html`<li><code>${visible(path)}</code></li>`)}</ul>
          <label class="inline"><input type="checkbox" checked=${transcripts} onChange=${(event) => setTranscripts(event.target.checked)} /> ${t.forgetting.alsoTranscripts}</label>`}
        <label class="inline"><input type="checkbox" checked=${files} onChange=${(event) => setFiles(event.target.checked)} /> ${t.forgetting.alsoFiles}</label>`}
      <label>${t.forgetting.confirm(word)}<input class="mono" value=${typed} autocomplete="off" spellcheck=${false} onInput=${(event) => setTyped(event.target.value)} /></label>
      <footer><button type="button" onClick=${onClose}>${t.cancel}</button><button type="submit" class="danger" disabled=${state.busy || typed.trim() !== word || !shown}>${t.forgetting.button}</button></footer>
    </form><//>`;
}
