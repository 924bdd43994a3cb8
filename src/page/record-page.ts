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

type Found =
  | { readonly kind: 'facts'; readonly facts: readonly (readonly [string, string])[] }
  | { readonly kind: 'not-stored' }
  | { readonly kind: 'purged'; readonly text: string }
  | { readonly kind: 'problem'; readonly message: string };

/** Search by key, then what `explain` says: which run stored it and when, and why the last sync met it or not. */
export async function recordPage(settings: LocalSettings, query: RecordQuery, world: PageWorld) {
  const target = query.in === '' ? null : targetOf(settings, query.in);
  const chosen = target === null || target instanceof SyncError ? null : target;
  const found = chosen === null ? null : await find(chosen, query, world.program);
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
    ${found === null ? '' : foundSection(found, query.in, world.program)}`;
  return page({ title: 'Find a record', root: './', main, isLive: false }, world);
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

/** Null: no key was typed yet. */
async function find(target: EntityTarget, { key }: RecordQuery, program: string): Promise<Found | null> {
  const given = target.table.key.filter((name) => key.has(name));
  if (given.length === 0) return null;
  try {
    const { keyText } = parseRecordKey(
      target.table,
      given.map((name) => `${name}=${key.get(name) ?? ''}`),
    );
    const { explanation, purged } = await explainRow(target, keyText);
    if (explanation !== null) {
      return { kind: 'facts', facts: explanationFacts(target, explanation, program) };
    }
    return purged === null ? { kind: 'not-stored' } : { kind: 'purged', text: purgedText(purged) };
  } catch (error) {
    if (error instanceof SyncError) return { kind: 'problem', message: error.message };
    throw error;
  }
}

function foundSection(found: Found, name: string, program: string): SafeHtml {
  switch (found.kind) {
    case 'facts':
      return facts(found.facts.map(([what, text]) => [what, withRunLinks(text)] as const));
    case 'not-stored':
      return html`<p role="status">
        It is not stored. <code>${program} get ${name}</code> shows whether the service has it.
      </p>`;
    case 'purged':
      return html`<p role="status">It ${printable(found.text)}</p>`;
    case 'problem':
      return problem(found.message);
  }
}

/** The runs that a text names lead to their pages. */
function withRunLinks(text: string): SafeHtml {
  const parts = printable(text).split(runIds);
  return html`${parts.map((part, index) => (index % 2 === 1 ? html`<a href="runs/${part}">${part}</a>` : part))}`;
}

function problem(message: string): SafeHtml {
  return html`<p class="notice failed" role="alert">${printable(message)}</p>`;
}
