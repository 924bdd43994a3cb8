import { html, type SafeHtml } from '@remix-run/html-template';
import { explainRow } from '../app/explain-row.ts';
import { parseRecordKey } from '../app/stored-fields.ts';
import { SyncError } from '../core/errors.ts';
import { runIds } from '../core/names.ts';
import { entityTarget, type EntityTarget } from '../settings/choices.ts';
import type { LocalSettings } from '../settings/settings.ts';
import { printable } from '../telemetry/format.ts';
import { explanationFacts, purgedText } from '../wording/connector-text.ts';
import { facts, page, type PageWorld } from './layout.ts';

export interface RecordQuery {
  /** `<connector>/<entity>`; empty: not chosen yet. */
  readonly in: string;
  /** Text typed into the fields of the key, by name. */
  readonly key: ReadonlyMap<string, string>;
}

/** Search by key, then what `explain` says: which run stored it and when, and why the last sync met it or not. */
export async function recordPage(settings: LocalSettings, query: RecordQuery, world: PageWorld) {
  const target = query.in === '' ? null : targetOf(settings, query.in);
  const chosen = target === null || target instanceof SyncError ? null : target;
  const main = html`<h1>Find a record</h1>
    <form method="get" action="record">
      <p class="fields">
        <label for="in"
          >Connector and entity
          <input id="in" name="in" value="${query.in}" placeholder="newsletter/list_members" required
        /></label>
        ${chosen === null ? '' : keyFields(chosen, query)}
        <button>${chosen === null ? 'Next' : 'Find'}</button>
      </p>
    </form>
    ${target instanceof SyncError ? problem(target.message) : ''}
    ${chosen === null ? '' : await foundSection(chosen, query, world.program)}`;
  return page({ title: 'Find a record', root: './', at: 'data', main, isLive: false }, world);
}

function targetOf(settings: LocalSettings, text: string): EntityTarget | SyncError {
  try {
    return entityTarget(settings, text);
  } catch (error) {
    if (error instanceof SyncError) return error;
    throw error;
  }
}

function keyFields({ table }: EntityTarget, { key }: RecordQuery): SafeHtml {
  return html`${table.key.map(
    (name) =>
      html`<label for="key-${name}"
        >${name}
        <input id="key-${name}" name="key.${name}" value="${key.get(name) ?? ''}" required autocomplete="off"
      /></label>`,
  )}`;
}

/** Empty: no key was typed yet. */
async function foundSection(target: EntityTarget, query: RecordQuery, program: string) {
  const given = target.table.key.filter((name) => query.key.has(name));
  if (given.length === 0) return '';
  try {
    const pairs = given.map((name) => `${name}=${query.key.get(name) ?? ''}`);
    const { keyText } = parseRecordKey(target.table, pairs);
    const { explanation, purged } = await explainRow(target, keyText);
    if (explanation !== null) {
      const found = explanationFacts(target, explanation, program);
      return facts(found.map(([what, text]) => [what, withRunLinks(text)] as const));
    }
    return purged === null
      ? html`<p role="status">
          It is not stored. <code>${program} get ${query.in}</code> shows whether the service has it.
        </p>`
      : html`<p role="status">It ${printable(purgedText(purged))}</p>`;
  } catch (error) {
    if (error instanceof SyncError) return problem(error.message);
    throw error;
  }
}

/** The runs that a text names lead to their pages. */
function withRunLinks(text: string): SafeHtml {
  const parts = printable(text).split(runIds);
  return html`${parts.map((part, index) => (index % 2 === 1 ? html`<a href="runs/${part}">${part}</a>` : part))}`;
}

function problem(message: string): SafeHtml {
  return html`<p class="callout bad" role="alert">${printable(message)}</p>`;
}
