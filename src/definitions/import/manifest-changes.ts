import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { Expression, Steps } from './expressions.ts';
import type { Component } from './manifest-file.ts';
import { placeOfOption, sentBy, type Request } from './manifest-request.ts';
import type { Records } from './manifest-records.ts';
import { refuse, unlessRefused, type Setting } from './manifest-settings.ts';
import { durationOf } from './manifest-sign-in.ts';
import { plainText } from './schemas.ts';
import { stated } from './write-definition.ts';

/** How the times of a cursor are sent, as a definition says it. */
interface Changes {
  readonly incremental?: JsonObject;
  /** The parameters of a window's bounds. */
  readonly bounds: { readonly from?: string | null; readonly to?: string | null };
  readonly guesses: readonly string[];
  /** The question that a person has to answer; null: there is none. */
  readonly open: string | null;
}

const none: Changes = { bounds: {}, guesses: [], open: null };

/** Reads the cursor of a retriever. A cursor without a parameter is no change read, and every read is a full one. */
export function readChanges(
  stream: Component,
  request: Request,
  records: Records,
  isCounted: boolean,
): Changes {
  const cursor = stream.part('incremental_sync');
  const bounds = request.uses.filter((use) => use.kind === 'bound');
  if (cursor === null) {
    return bounds.length > 0 ? refuse('a time of changes that no cursor gives', stream) : none;
  }
  if (cursor.kind === 'IncrementingCountCursor' && bounds.length === 0) return none;
  if (cursor.kind !== 'DatetimeBasedCursor') return refuse('a cursor of this type', cursor);
  const from = paramOf(cursor, request, 'from');
  const to = paramOf(cursor, request, 'to');
  if (from === null) return to === null ? none : refuse('an end of changes without a start', cursor);
  const pattern = sentPattern(cursor, bounds);
  const format = formatOf(pattern, cursor);
  const { value: first, setting, steps, open } = firstOf(cursor);
  const field = cursorField(cursor, records);
  if (to !== null || (cursor.get('step') ?? '') !== '') {
    // Windows begin somewhere.
    if (setting !== null) request.used.push({ ...setting, isRequired: setting.fallback === null });
    const step = stepOf(cursor);
    const { lookbackMs, guesses } = lookbackOf(cursor, 86_400_000);
    const params = {
      ...stated({ field: field?.name }),
      fromParam: from,
      ...stated({ toParam: to ?? undefined }),
    };
    return {
      incremental: { kind: 'windows', ...params, format, step: step.value, first, lookbackMs },
      bounds: { from, to },
      guesses: [...guesses, ...(step.isGuessed ? [`step: ${JSON.stringify(step.value)}`] : [])],
      open,
    };
  }
  const isNumber = field?.type === 'integer' || field?.type === 'number';
  // Counted pages prove nothing without an order: every read is a full one from the first time on.
  if (isCounted || field === null || (isNumber && !format.startsWith('unix'))) {
    if (setting === null) {
      request.fixed[from] = plainText(first);
      return { ...none, open };
    }
    const place = request.params.remove(from);
    if (place === null || steps === null) return refuse('a first time that is computed', cursor);
    const asSent = cursor.settings.at(steps, cursor, pattern);
    request.put(place, { kind: 'setting', setting: asSent, suffix: '' }, cursor);
    return none;
  }
  const { lookbackMs, guesses } = lookbackOf(cursor, 3_600_000);
  const changed = { field: field.name, ...(isNumber ? { format } : {}) };
  const incremental = { kind: 'since', ...changed, sinceParam: from, sinceFormat: format, first, lookbackMs };
  if (setting !== null) request.used.push(setting);
  return { ...none, incremental, guesses, open };
}

/** The one format in which the request sends times. */
function sentPattern(
  cursor: Component,
  bounds: readonly Extract<Request['uses'][number], { kind: 'bound' }>[],
): string {
  const own = (cursor.text('datetime_format') ?? '%Y-%m-%dT%H:%M:%S%z').replace('%_ms', '%f');
  const cut = own.replace(/%z$/, '+00');
  const formats = new Set(bounds.map((use) => use.format ?? (use.isCut === true ? cut : own)));
  const [pattern = own] = formats;
  return formats.size > 1 ? refuse(`times of two formats (${[...formats].join(', ')})`, cursor) : pattern;
}

/** The parameter that takes the start or the end of changes; null: the request has none. */
function paramOf(cursor: Component, request: Request, bound: 'from' | 'to'): string | null {
  const option = cursor.part(bound === 'from' ? 'start_time_option' : 'end_time_option');
  const place = placeOfOption(option);
  if (option !== null && place === null) refuse('a time in an address', option);
  if (place !== null) return request.params.add(place, { hint: bound });
  const [use, ...others] = request.uses.filter((one) => one.kind === 'bound' && one.bound === bound);
  if (others.length > 0) refuse('a time of changes in several places of a request', cursor);
  return use?.param ?? null;
}

function lookbackOf(cursor: Component, usual: number) {
  const ms = durationOf(cursor.text('lookback_window') ?? '');
  return ms === null
    ? { lookbackMs: usual, guesses: [`lookbackMs: ${usual}`] }
    : { lookbackMs: Math.min(Math.max(ms, 1000), maxLookback), guesses: [] };
}

const maxLookback = 366 * 86_400_000;

function formatOf(pattern: string, cursor: Component): string {
  if (pattern === '%s') return 'unix';
  if (pattern === '%ms') return 'unixMs';
  const isRead = !pattern.replaceAll(/%[YmdHMSfz]/g, '').includes('%');
  return isRead ? pattern : refuse(`times in the format ${pattern}`, cursor);
}

interface First {
  readonly value: JsonValue;
  readonly setting: Setting | null;
  /** The place of the setting among the values of the connector; null: it is made of several. */
  readonly steps: Steps | null;
  readonly open: string | null;
}

/** The first time that is asked for. */
function firstOf(cursor: Component): First {
  const given = cursor.part('start_datetime')?.expression('datetime') ?? cursor.expression('start_datetime');
  const none = { value: '2020-01-01T00:00:00Z', setting: null, steps: null };
  const open = (why: string): First => ({ ...none, open: `write the first time to ask for: ${why}` });
  if (given === null) return open('the file has none');
  const inner = withoutFormat(given);
  const config = inner.kind === 'or' ? inner.parts[0] : inner;
  const steps = config?.kind === 'path' ? config.steps : null;
  const computed = (): First => open('the file computes it');
  return unlessRefused(() => {
    const sent = sentBy(inner, cursor);
    if (sent.kind === 'text') return { ...none, value: plainText(sent.value), open: null };
    if (sent.kind === 'clock') return open(`the file counts ${sent.days} days from each run`);
    if (sent.kind !== 'setting') return computed();
    const { setting } = sent;
    return { value: { field: setting.name }, setting, steps, open: null };
  }, computed);
}

function withoutFormat(value: Expression): Expression {
  const isFormat =
    value.kind === 'call' && /^(?:format_datetime|str_to_datetime|strftime|max|min)$/.test(value.name);
  const [inner] = isFormat ? value.parts : [];
  return inner === undefined ? value : withoutFormat(inner);
}

function stepOf(cursor: Component) {
  const given = cursor.expression('step');
  const text = given?.kind === 'value' ? plainText(given.value) : '';
  const [, years, months] = /^P(?=\d)(?:(\d+)Y)?(?:(\d+)M)?$/.exec(text) ?? [];
  if (years !== undefined || months !== undefined) {
    return { value: { months: Number(years ?? 0) * 12 + Number(months ?? 0) }, isGuessed: false };
  }
  const days = (durationOf(text) ?? 0) / 86_400_000;
  if (Number.isInteger(days) && days > 0) return { value: { days }, isGuessed: false };
  if (text !== '') return refuse(`windows of ${text}: only whole days and months are read`, cursor);
  // One call may span everything, or a connector chooses the length.
  return { value: given === null ? { months: 12 } : { days: 30 }, isGuessed: true };
}

function cursorField(cursor: Component, records: Records) {
  const [first = '', ...rest] = (cursor.text('cursor_field') ?? '').split('.');
  const found = records.reach([first, ...rest], 'cursor');
  if (found.kind !== 'field') return null;
  const type = found.type === 'any' ? 'string' : found.type;
  if (found.path !== null) return { name: records.columnAt(found.path.split('.')), type };
  records.declare(first, type);
  return { name: found.name, type };
}
