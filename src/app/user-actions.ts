import type { SyncError } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import type { LocalSettings } from '../settings/settings.ts';
import type { ActionName, NotedAction } from '../sinks/requests.ts';
import type { LedgerReader } from '../sinks/sink-access.ts';
import { counted } from '../telemetry/format.ts';
import { askSinks } from './find-run.ts';

/** Actions of people in all sinks, newest first, and the errors of sinks that cannot be read. */
export async function newestActions(settings: LocalSettings, query: Parameters<LedgerReader['actions']>[0]) {
  const found: (NotedAction & { readonly sink: string })[] = [];
  const unreadable: SyncError[] = [];
  const asked = askSinks(settings, (history) => history.actions(query));
  for await (const { sink, found: actions, error } of asked) {
    for (const action of actions ?? []) found.push({ ...action, sink: sink.name });
    if (error !== null) unreadable.push(error);
  }
  found.sort((left, right) => (left.at < right.at ? 1 : -1));
  return { actions: found.slice(0, query.limit), unreadable };
}

/** Actions that a request may have, one of each entity: with fewer more, one at the end might not be complete. */
const mostOfRequest = 500;
/** Searched at most in each sink. */
const mostSearched = 5_000;

/** The newest requests of people that have all these words; `isCut`: older ones were not looked through. */
export async function searchActions(
  settings: LocalSettings,
  { who, on, q, shown }: { readonly [Name in 'who' | 'on' | 'q']: string } & { readonly shown: number },
) {
  const isFiltered = [who, on, q].some((text) => text !== '');
  const limit = isFiltered ? mostSearched : shown + mostOfRequest;
  const { actions, unreadable } = await newestActions(settings, { limit });
  const has = (text: string, part: string): boolean => text.toLowerCase().includes(part.trim().toLowerCase());
  const matching = requestsOf(actions).filter((request) => {
    const { before, subject, after, details } = actionText(request);
    return has(request.who, who) && has(subject ?? '', on) && has(`${before} ${after} ${details}`, q);
  });
  const isCut = isFiltered && actions.length >= mostSearched;
  const isMore = matching.length > shown || (!isFiltered && actions.length >= limit);
  return { actions: matching.slice(0, shown), isFiltered, isMore, isCut, unreadable };
}

/** Something that a person asked for at once. `entities`: those that it was done to; empty: no single ones. */
export interface NotedRequest extends NotedAction {
  readonly entities: readonly EntityName[];
}

/** A request that is carried out for one entity after the other notes them within this time. */
const requestWithinMs = 60_000;

/** Actions, newest first, as requests: one for several entities is one, with the sums of their numbers. */
export function requestsOf(actions: readonly NotedAction[]): readonly NotedRequest[] {
  const requests: NotedRequest[] = [];
  for (const action of actions) {
    const last = requests.at(-1);
    const entities = action.entity === null ? [] : [action.entity];
    if (last === undefined || !isOfRequest(action, last)) {
      requests.push({ ...action, entities });
      continue;
    }
    const detail = { ...last.detail };
    for (const [name, value] of Object.entries(action.detail)) {
      const sum = detail[name];
      if (typeof value === 'number' && typeof sum === 'number') detail[name] = sum + value;
    }
    requests[requests.length - 1] = { ...last, detail, entities: [...entities, ...last.entities] };
  }
  return requests;
}

function isOfRequest({ at, who, action, connector, entity, run }: NotedAction, of: NotedRequest): boolean {
  if (entity === null || of.entities.length === 0 || of.entities.includes(entity)) return false;
  const isSame = who === of.who && action === of.action && connector === of.connector && run === of.run;
  return isSame && Date.parse(of.at) - Date.parse(at) < requestWithinMs;
}

/** Details of an action except who did it, on one line: `from every hour to every 15 min, reason: a move`. */
export function actionDetail({ detail: { from, to, ...others } }: Pick<NotedAction, 'detail'>): string {
  const change = Object.entries({ from, to }).flatMap(([name, value]) =>
    typeof value === 'string' ? [`${name} ${value}`] : [],
  );
  const left = typeof from === 'object' ? { from, ...others } : others;
  const facts = Object.entries(left).map(
    ([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  return [...(change.length === 0 ? [] : [change.join(' ')]), ...facts].join(', ');
}

/** Begins the text before the name of the connector or target, and ends it. */
export const actionVerbs: Readonly<Record<ActionName, readonly [before: string, after?: string]>> = {
  pause: ['Paused'],
  resume: ['Resumed'],
  cancel: ['Stopped a run of'],
  reset: ['Discarded the progress of'],
  remove: ['Removed', 'from the sink'],
  adopt: ['Changed the workspace of'],
  undo: ['Undid a run of'],
  purge: ['Purged records of'],
  refetch: ['Read a record again of'],
  'allow-deletes': ['Allowed deletes of', 'once'],
  'read-in-full': ['Read everything again of'],
  'run-now': ['Started a run of'],
  'publish-now': ['Published into'],
  check: ['Checked'],
  'mark-known': ['Marked new fields as known of'],
  'new-key': ['Gave a new key to'],
  add: ['Added', 'to the config'],
  schedule: ['Changed the schedule of'],
  'copy-from': ['Copied', 'here from another sink'],
  'copy-to': ['Copied', 'to another sink'],
  'copy-discarded': ['Discarded an unfinished copy of'],
  'copy-reopened': ['Took back', 'after a copy'],
};

/** Parts of a sentence about a request. `subject`: its connector or target; null: it concerned no single one. */
export function actionText({ action, connector, entities, detail }: NotedRequest) {
  const [before, after = ''] = actionVerbs[action];
  // The run is named by a link.
  const { target, run: _run, ...more } = detail;
  const subject = connector ?? (typeof target === 'string' ? target : null);
  const many = entities.length > 1 ? `${counted(entities.length, 'entity', 'entities')}: ` : '';
  const details = [`${many}${firstNames(entities, 20)}`, actionDetail({ detail: more })];
  return { before, subject, after, details: details.filter((text) => text !== '').join(', ') };
}
