import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { Expression } from './expressions.ts';
import type { Component } from './manifest-file.ts';
import type { Need } from './manifest-language.ts';
import { placeOfOption, type Request } from './manifest-request.ts';
import type { Records } from './manifest-records.ts';
import { durationOf } from './manifest-sign-in.ts';
import { refuse, Refusal, sentBy, type Setting, type Settings } from './manifest-values.ts';
import { plainText } from './schemas.ts';

/** How the times of a cursor are sent, as a definition says it. */
export interface Changes {
  readonly incremental: JsonObject | null;
  /** Parameters with the same value in every call. */
  readonly fixed: JsonObject;
  /** Column: the parameter of a window's bound. */
  readonly bounds: ReadonlyMap<'from' | 'to', string>;
  readonly used: readonly Setting[];
  readonly guesses: readonly string[];
  readonly open: string | null;
  readonly needs: readonly Need[];
}

const none: Changes = {
  incremental: null,
  fixed: {},
  bounds: new Map(),
  used: [],
  guesses: [],
  open: null,
  needs: [],
};

/** Reads the cursor of a retriever. A cursor without a parameter is no change read, and every read is a full one. */
export function readChanges(
  stream: Component,
  request: Request,
  records: Records,
  isCounted: boolean,
  settings: Settings,
): Changes {
  const cursor = stream.part('incremental_sync');
  const bounds = request.uses.filter((use) => use.kind === 'bound');
  if (cursor === null) {
    if (bounds.length > 0) refuse('a time of changes that no cursor gives', stream);
    return none;
  }
  if (cursor.isCustom) refuse('a cursor of this type', cursor);
  if (cursor.type !== 'DatetimeBasedCursor') {
    return bounds.length > 0 || cursor.type !== 'IncrementingCountCursor'
      ? refuse('a cursor of this type', cursor)
      : none;
  }
  const own = cursor.text('datetime_format') ?? '%Y-%m-%dT%H:%M:%S%z';
  const paramOf = (bound: 'from' | 'to', name: string): string | null => {
    const option = cursor.part(name);
    const place = option === null ? null : placeOfOption(option, settings);
    if (option !== null && place === null) return refuse('a time in an address', option);
    if (place !== null) return request.params.add(place, { hint: bound });
    const [use, ...others] = bounds.filter((one) => one.bound === bound);
    if (others.length > 0) return refuse('a time of changes in several places of a request', cursor);
    return use?.param ?? null;
  };
  const [from, to] = [paramOf('from', 'start_time_option'), paramOf('to', 'end_time_option')];
  if (from === null) return to === null ? none : refuse('an end of changes without a start', cursor);
  const formats = new Set(bounds.map((use) => use.format ?? own));
  if (bounds.length === 0) formats.add(own);
  const [pattern = own, ...more] = formats;
  if (more.length > 0) return refuse(`times of two formats (${[...formats].join(', ')})`, cursor);
  const format = formatOf(pattern, cursor);
  const first = firstOf(cursor, settings);
  const reading = { cursor, request, records, settings, from, format, first, pattern };
  const step = cursor.get('step');
  if (to !== null || (step !== undefined && step !== null && step !== '')) return windows(reading, to);
  return since(reading, isCounted);
}

interface Reading {
  readonly cursor: Component;
  readonly request: Request;
  readonly records: Records;
  readonly settings: Settings;
  readonly from: string;
  readonly format: string;
  readonly first: First;
  readonly pattern: string;
}

function formatOf(pattern: string, cursor: Component): string {
  if (pattern === '%s') return 'unix';
  if (pattern === '%ms') return 'unixMs';
  if (pattern.replaceAll(/%[YmdHMSfz]/g, '').includes('%')) {
    return refuse(`times in the format ${pattern}`, cursor);
  }
  return pattern;
}

function patternNeeds(format: string): readonly Need[] {
  return format.startsWith('unix') ? [] : ['timePatterns'];
}

interface First {
  readonly value: JsonValue;
  readonly setting: Setting | null;
  readonly open: string | null;
}

/** The first time that is asked for. */
function firstOf(cursor: Component, settings: Settings): First {
  const stated = cursor.part('start_datetime')?.expression('datetime') ?? cursor.expression('start_datetime');
  const inner = stated === null ? null : withoutFormat(stated);
  const open = (why: string): First => ({
    value: '2020-01-01T00:00:00Z',
    setting: null,
    open: `write the first time to ask for: ${why}`,
  });
  if (inner === null) return open('the file has none');
  try {
    const sent = sentBy(inner, settings, cursor);
    if (sent.kind === 'text') return { value: plainText(sent.value), setting: null, open: null };
    if (sent.kind === 'setting') {
      const { setting } = sent;
      return { value: { field: setting.name }, setting, open: null };
    }
    return open(
      sent.kind === 'clock' ? `the file counts ${sent.days} days from each run` : 'the file computes it',
    );
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return open('the file computes it');
  }
}

function withoutFormat(value: Expression): Expression {
  const inner = value.kind === 'call' ? value.parts[0] : undefined;
  const isFormat =
    value.kind === 'call' &&
    ['format_datetime', 'str_to_datetime', 'strftime', 'max', 'min'].includes(value.name);
  return isFormat && inner !== undefined ? withoutFormat(inner) : value;
}

/** A parameter leaves out what did not change since a time. */
function since(reading: Reading, isCounted: boolean): Changes {
  const { cursor, records, from, format, first } = reading;
  const needs: readonly Need[] = ['firstChange', ...patternNeeds(format)];
  const used = first.setting === null ? [] : [first.setting];
  const lookback = lookbackOf(cursor);
  const field = cursorField(cursor, records);
  // Counted pages prove nothing without an order: every read is a full one from the first time on.
  if (isCounted || field === null) return constant(reading);
  const isNumber = field.type === 'integer' || field.type === 'number';
  if (isNumber && !format.startsWith('unix')) return constant(reading);
  return {
    ...none,
    incremental: {
      kind: 'since',
      field: field.name,
      ...(isNumber ? { format } : {}),
      sinceParam: from,
      sinceFormat: format,
      first: first.value,
      lookbackMs: lookback ?? 3_600_000,
    },
    used,
    guesses: lookback === null ? ['lookbackMs: 3600000'] : [],
    open: first.open,
    needs,
  };
}

/** The first time is sent with every call. */
function constant({ request, from, first, settings, cursor, pattern }: Reading): Changes {
  const { value, setting, open } = first;
  if (setting === null) return { ...none, fixed: { [from]: plainText(value) }, open };
  const place = request.params.remove(from);
  const start = cursor.part('start_datetime')?.expression('datetime') ?? cursor.expression('start_datetime');
  const inner = start === null ? null : withoutFormat(start);
  const config = inner?.kind === 'or' ? inner.parts[0] : inner;
  if (place === null || config?.kind !== 'path') return refuse('a first time that is computed', cursor);
  const asSent = settings.at(config.steps, cursor, pattern);
  request.put(place, { kind: 'setting', setting: asSent, suffix: '' }, cursor);
  return { ...none, used: [asSent] };
}

/** A listing for each span of time. */
function windows(reading: Reading, to: string | null): Changes {
  const { cursor, from, format, first, records } = reading;
  const lookback = lookbackOf(cursor);
  const field = cursorField(cursor, records);
  const step = stepOf(cursor);
  const guesses = [
    ...(lookback === null ? ['lookbackMs: 86400000'] : []),
    ...(step.isGuessed ? [`step: ${JSON.stringify(step.value)}`] : []),
  ];
  return {
    ...none,
    incremental: {
      kind: 'windows',
      ...(field === null ? {} : { field: field.name }),
      fromParam: from,
      ...(to === null ? {} : { toParam: to }),
      format,
      step: step.value,
      first: first.value,
      lookbackMs: lookback ?? 86_400_000,
    },
    bounds: new Map([['from', from] as const, ...(to === null ? [] : [['to', to] as const])]),
    used: first.setting === null ? [] : [first.setting],
    guesses,
    open: first.open,
    needs: ['windows', ...patternNeeds(format)],
  };
}

function stepOf(cursor: Component) {
  const stated = cursor.expression('step');
  const text = stated?.kind === 'value' ? plainText(stated.value) : '';
  const [, years, months] = /^P(?:(\d+)Y)?(?:(\d+)M)?$/.exec(text) ?? [];
  const ms = durationOf(text);
  const days = ms === null ? 0 : ms / 86_400_000;
  if (text !== '' && text !== 'P' && (years !== undefined || months !== undefined)) {
    return { value: { months: Number(years ?? 0) * 12 + Number(months ?? 0) }, isGuessed: false };
  }
  if (Number.isInteger(days) && days > 0) return { value: { days }, isGuessed: false };
  if (text !== '') return refuse(`windows of ${text}: only whole days and months are read`, cursor);
  // One call may span everything, or a connector chooses the length.
  return { value: stated === null ? { months: 12 } : { days: 30 }, isGuessed: true };
}

const maxLookback = 366 * 86_400_000;

function lookbackOf(cursor: Component): number | null {
  const ms = durationOf(cursor.text('lookback_window') ?? '');
  return ms === null ? null : Math.min(Math.max(ms, 1000), maxLookback);
}

function cursorField(cursor: Component, records: Records) {
  const name = cursor.text('cursor_field') ?? '';
  const [first = '', ...rest] = name.split('.');
  const found = records.reach([first, ...rest], 'cursor');
  if (found.kind !== 'field') return null;
  const type = found.type === 'any' ? 'string' : found.type;
  if (found.path === null) records.declare(first, type);
  else records.columnOf(found.path.split('.')[0] ?? '');
  return { name: found.path ?? found.name, type };
}
