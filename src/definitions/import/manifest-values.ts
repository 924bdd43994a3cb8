import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { expressionText, fixedText, isNothing, rootsOf, type Expression, type Steps } from './expressions.ts';
import type { Component } from './manifest-file.ts';
import { listIn, objectIn, oneLine, partIn, plainText, textIn, textsIn } from './schemas.ts';

/** Why a stream, a sign-in or another part cannot be imported, and the component that decides. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
}

/** Throws the refusal. `at`: the component that decides. */
export function refuse(why: string, at: Component): never {
  throw new Refusal(`${oneLine(why, 200)} (${at.type || 'component'}, line ${at.line ?? '?'})`);
}

/** A value of the connector, as a definition names it. */
export interface Setting {
  readonly name: string;
  readonly title: string;
  readonly isSecret: boolean;
  readonly isRequired: boolean;
  /** The text that is sent where a connector does not give it; null: nothing. */
  readonly fallback: string | null;
  readonly values: readonly string[];
}

export type Settings = ReturnType<typeof openSettings>;

/** Reads what the file says of the values of a connector. `computed`: places of values that the file itself makes. */
export function openSettings(spec: JsonObject, computed: ReadonlySet<string>) {
  const found = new Map<string, Setting>();
  const shapes = shapesIn(spec);
  const shapeAt = (steps: Steps) => shapes.get(steps.join('.'));
  const isComputed = (steps: Steps): boolean =>
    computed.has(steps.join('.')) || computed.has(String(steps[0]));
  const known = (key: string, place: string, suffix: string, make: (name: string) => Setting): Setting => {
    const before = found.get(key);
    if (before !== undefined) return before;
    const taken = new Set([...found.values()].map(({ name }) => name));
    const names = [place.split('.').at(-1) ?? place, place, `${place}_${found.size}`].map((text) =>
      safeName(text + suffix),
    );
    const setting = make(names.find((name) => !taken.has(name)) ?? `setting_${found.size}`);
    found.set(key, setting);
    return setting;
  };
  return {
    /** The setting at a place. `format`: how the text is sent, where a template writes a time in another form. */
    at: (steps: Steps, at: Component, format: string | null = null): Setting => {
      const place = steps.join('.');
      if (isComputed(steps)) refuse(`the configuration value ${place}, which the file computes`, at);
      const shape = shapeAt(steps);
      const isSecret = partIn(shape?.schema, 'airbyte_secret') === true;
      const fallback = isSecret ? '' : plainText(partIn(shape?.schema, 'default'));
      const title = oneLine(textIn(shape?.schema, 'title') ?? place, 80);
      return known(`${place} ${format}`, place, format === null ? '' : '_as_sent', (name) => ({
        name,
        title: format === null ? title : `${title}, as it is sent (${format})`,
        isSecret,
        isRequired: shape?.isRequired === true && fallback === '',
        fallback: fallback || null,
        values: textsIn(shape?.schema, 'enum'),
      }));
    },
    /** A setting in place of a text that a template makes of values of the connector only. */
    madeOf: (expression: Expression, at: Component): Setting => {
      const places = placesIn(expression);
      const text = oneLine(expressionText(expression), 100);
      if (places.some(isComputed)) refuse(`a value that the file computes (${text})`, at);
      const isSecret = places.some((steps) => partIn(shapeAt(steps)?.schema, 'airbyte_secret') === true);
      return known(text, places[0]?.join('.') ?? '', '_as_sent', (name) => {
        const title = oneLine(`${name}, as it is sent: ${text}`, 140);
        return { name, title, isSecret, isRequired: true, fallback: null, values: [] };
      });
    },
    /** Whether the file describes a value of the connector. */
    isKnown: (steps: Steps): boolean =>
      shapes.size === 0 || shapeAt(steps) !== undefined || isComputed(steps),
    isSecretAt: (steps: Steps): boolean => partIn(shapeAt(steps)?.schema, 'airbyte_secret') === true,
  };
}

function safeName(text: string): string {
  const name = text.replaceAll(/[^A-Za-z0-9_-]+/g, '_').replace(/^[^A-Za-z]+/, '');
  return (name === '' ? 'setting' : name).slice(0, 60);
}

/** Values of a connector by their places, such as `credentials.api_key`, in every form that the file allows. */
function shapesIn(spec: JsonObject) {
  const found = new Map<string, { readonly schema: JsonObject; readonly isRequired: boolean }>();
  const add = (schema: JsonObject, above: readonly string[], depth: number): void => {
    if (depth > 5) return;
    for (const [name, one] of Object.entries(objectIn(schema, 'properties'))) {
      const place = [...above, name].join('.');
      if (!isJsonObject(one)) continue;
      if (!found.has(place)) {
        found.set(place, { schema: one, isRequired: textsIn(schema, 'required').includes(name) });
      }
      add(one, [...above, name], depth + 1);
    }
    for (const one of [...listIn(schema, 'oneOf'), ...listIn(schema, 'anyOf')]) {
      add(objectIn(one), above, depth + 1);
    }
  };
  add(spec, [], 0);
  return found;
}

/** The value that a template of a request stands for. */
export type Sent =
  | { readonly kind: 'text'; readonly value: JsonValue }
  | { readonly kind: 'setting'; readonly setting: Setting; readonly suffix: string }
  | Use;

/** A value from outside of the connector's values. */
export type Use =
  /** A value of the parent's record or of a list of values, by its name. `above`: 1 for that of the parent's parent. */
  | {
      readonly kind: 'partition';
      readonly name: string;
      readonly above: number;
      readonly part: JsonObject | null;
    }
  | { readonly kind: 'bound'; readonly bound: 'from' | 'to'; readonly format: string | null }
  | { readonly kind: 'token' }
  /** A number of days from now, in a format. */
  | { readonly kind: 'clock'; readonly days: number; readonly format: string };

/** Reads an expression of a request; an absent one is an empty text. Refuses all other forms. */
export function sentBy(expression: Expression | null, settings: Settings, at: Component): Sent {
  if (expression === null) return { kind: 'text', value: '' };
  const sent = read(expression, settings, at);
  if (sent !== null) return sent;
  const roots = rootsOf(expression);
  // Where only values of the connector stand in it, a person gives the text itself.
  if (roots.size === 1 && roots.has('config')) {
    return { kind: 'setting', setting: settings.madeOf(expression, at), suffix: '' };
  }
  const what =
    expression.kind === 'join' ? 'a value inside a longer text' : 'a template of a form that is not read';
  return refuse(`${what} (${expressionText(expression)})`, at);
}

function read(expression: Expression, settings: Settings, at: Component): Sent | null {
  switch (expression.kind) {
    case 'value':
      return { kind: 'text', value: expression.value };
    case 'path':
      return readPath(expression.root, expression.steps, settings, at);
    case 'or':
      return withFallback(expression.parts, settings, at);
    case 'join': {
      const [first, end, ...more] = expression.parts;
      const isEnd =
        first?.kind === 'path' && first.root === 'config' && end?.kind === 'value' && more.length === 0;
      return isEnd
        ? { kind: 'setting', setting: settings.at(first.steps, at), suffix: fixedText(end) }
        : null;
    }
    case 'if': {
      const [test, yes, no] = expression.parts;
      const tested = test.kind === 'compare' ? test.parts[0] : test;
      // A test for the first page.
      if (
        tested.kind === 'path' &&
        tested.root === 'token' &&
        [yes, no].some((one) => one.kind === 'value')
      ) {
        return sentBy(yes.kind === 'value' ? no : yes, settings, at);
      }
      const isSame =
        test.kind === 'path' &&
        placesIn(yes).some((steps) => test.steps.every((step, index) => steps[index] === step));
      return isSame || expressionText(test) === expressionText(yes)
        ? withFallback([yes, no], settings, at)
        : null;
    }
    case 'call':
      return readCall(expression.name, expression.parts, settings, at);
    case 'and':
    case 'compare':
    case 'not':
    case 'other':
      return null;
  }
}

/** The values of the connector in an expression. */
function placesIn(expression: Expression): readonly Steps[] {
  if (expression.kind === 'path') return expression.root === 'config' ? [expression.steps] : [];
  return 'parts' in expression ? expression.parts.flatMap(placesIn) : [];
}

function readPath(root: string, steps: Steps, settings: Settings, at: Component): Sent | null {
  if (root === 'token') return { kind: 'token' };
  if (root === 'config') {
    // Public files name a value that no connector has where they want none.
    if (!settings.isKnown(steps)) return { kind: 'text', value: '' };
    return { kind: 'setting', setting: settings.at(steps, at), suffix: '' };
  }
  const text = steps.join('.');
  if (root !== 'slice' || text === '') return null;
  if (text === 'start_time' || text === 'end_time') {
    return { kind: 'bound', bound: text === 'start_time' ? 'from' : 'to', format: null };
  }
  const [, parents = '', name = ''] = /^((?:parent_slice\.)*)(extra_fields\..+|[^.]+)$/.exec(text) ?? [];
  return name === '' ? null : { kind: 'partition', name, above: parents.split('.').length - 1, part: null };
}

/** `config.x or 'text'`, `next_page_token or 1` */
function withFallback(parts: readonly Expression[], settings: Settings, at: Component): Sent | null {
  const [first, second, ...more] = parts;
  if (first === undefined || second === undefined || more.length > 0) return null;
  // Two places of the same value, in an older form of the configuration and in a newer one.
  if ([first, second].every((part) => part.kind === 'path' && part.root === 'config')) {
    const isFirst = first.kind === 'path' && settings.isKnown(first.steps);
    return sentBy(isFirst ? first : second, settings, at);
  }
  const sent = sentBy(first, settings, at);
  if (sent.kind !== 'setting') return sent.kind === 'text' ? null : sent;
  if (isNothing(second)) return sent;
  const fallback = sent.setting.isSecret ? '' : fixedText(second);
  // A value that each run computes: a person gives one.
  return { ...sent, setting: { ...sent.setting, isRequired: fallback === '', fallback: fallback || null } };
}

const clockFormats = new Map([
  ['%Y-%m-%d', 'date'],
  ['%Y%m%d', 'compactDate'],
  ['%Y-%m-%dT%H:%M:%SZ', 'dateTime'],
  ['%s', 'unix'],
]);

function readCall(
  name: string,
  parts: readonly Expression[],
  settings: Settings,
  at: Component,
): Sent | null {
  const [value, second] = parts;
  const text = fixedText(second);
  if (name === 'now_utc') return { kind: 'clock', days: 0, format: 'dateTime' };
  if (name === 'today_utc') return { kind: 'clock', days: 0, format: 'date' };
  if (value === undefined) return null;
  const inner = (): Sent => sentBy(value, settings, at);
  switch (name) {
    case 'day_delta': {
      const format = text === '' ? 'dateTime' : clockFormats.get(text);
      return format === undefined || value.kind !== 'value'
        ? null
        : { kind: 'clock', days: Number(value.value), format };
    }
    case 'format_datetime':
    case 'strftime': {
      if (value.kind === 'path' && value.root === 'config') {
        return { kind: 'setting', setting: settings.at(value.steps, at, text), suffix: '' };
      }
      const sent = inner();
      if (sent.kind === 'bound') return { ...sent, format: text };
      const format = clockFormats.get(text);
      return sent.kind === 'clock' && format !== undefined ? { ...sent, format } : null;
    }
    case 'timestamp': {
      const sent = inner();
      if (sent.kind === 'clock') return { ...sent, format: 'unix' };
      return sent.kind === 'bound' ? { ...sent, format: '%s' } : null;
    }
    case '-':
    case '+': {
      const days = Number(
        /^duration\("P(\d+)D"\)$/.exec(second === undefined ? '' : expressionText(second))?.[1],
      );
      const sent = Number.isNaN(days) ? null : inner();
      return sent?.kind === 'clock' ? { ...sent, days: sent.days + (name === '-' ? -days : days) } : null;
    }
    case 'int':
    case 'strip':
    case 'trim':
    case 'str_to_datetime':
      return inner();
    case 'part': {
      if (value.kind !== 'call' || value.name !== 'split' || second?.kind !== 'value') return null;
      const sent = sentBy(value.parts[0] ?? null, settings, at);
      const part = { split: fixedText(value.parts[1]), part: second.value };
      return sent.kind === 'partition' && typeof second.value === 'number' ? { ...sent, part } : null;
    }
    default:
      return null;
  }
}

// --- The address of a request

export interface Address {
  readonly baseUrl: string;
  /** Names in the host, and where their values come from. */
  readonly host: JsonObject;
  /** The path behind the address; its templates are still in it. */
  readonly path: readonly Expression[];
  readonly used: readonly Setting[];
}

const label = '[a-z0-9][a-z0-9-]{0,62}';
const wholeHost = String.raw`${label}(\.${label}){1,5}`;

/** Divides the whole address of a request into its host and its path. */
export function addressOf(given: readonly Expression[], settings: Settings, at: Component): Address {
  const queue = given.flatMap((part) => (part.kind === 'join' ? part.parts : [part]));
  const used: Setting[] = [];
  const host: Record<string, JsonValue> = {};
  const [, scheme, start = ''] = /^\s*(?:([a-z]+):\/\/)?(.*)$/s.exec(fixedText(queue[0])) ?? [];
  if (queue[0]?.kind === 'value') queue[0] = { kind: 'value', value: start };
  if (queue[0]?.kind === 'value' && scheme !== 'https') {
    refuse(
      `an address that is not https (${oneLine(fixedText(given[0]), 60)}): credentials are sent there`,
      at,
    );
  }
  let written = '';
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    const slash = fixedText(next).indexOf('/');
    written += fixedText(next).slice(0, slash < 0 ? undefined : slash);
    if (slash >= 0) queue.unshift({ kind: 'value', value: fixedText(next).slice(slash) });
    if (slash >= 0) break;
    if (next.kind === 'value') continue;
    const isWhole = written === '' && (queue.length === 0 || /^[/:]/.test(fixedText(queue[0])));
    const named = hostName(next, isWhole, settings, at);
    used.push(named.setting);
    host[named.setting.name] = named.host;
    written += `{${named.setting.name}}`;
    if (named.path !== '') queue.unshift({ kind: 'value', value: named.path });
  }
  return { baseUrl: `https://${written}`, host, path: queue, used };
}

/** A name in a host, of a value of the connector or of a table that it chooses from. */
function hostName(part: Expression, isWhole: boolean, settings: Settings, at: Component) {
  const table = tableOf(part, settings, at);
  if (table !== null) {
    const parts = Object.entries(table.map).map(([value, url]) => {
      const [, host = '', path = ''] = /^(?:https:\/\/)?([^/]*)(\/.*)?$/.exec(url) ?? [];
      return { value, host, path };
    });
    const path = parts[0]?.path ?? '';
    if (parts.some((one) => one.host === '' || one.path !== path)) {
      refuse('addresses to choose from that differ in more than the host', at);
    }
    const map = Object.fromEntries(parts.map(({ value, host }) => [value, host]));
    return { setting: table.setting, host: { from: [{ field: table.setting.name }], map }, path };
  }
  const isBare = part.kind === 'call' && /^(?:r?strip|replace|trim|sanitize_url)$/.test(part.name);
  const inner = isBare ? (part.parts[0] ?? part) : part;
  if ([...rootsOf(inner)].join() !== 'config') {
    refuse(`a host that is not fixed (${expressionText(inner)})`, at);
  }
  const sent = sentBy(inner, settings, at);
  if (sent.kind !== 'setting') return refuse(`a host that is computed (${expressionText(inner)})`, at);
  const { setting, suffix } = sent;
  const stated = [...setting.values, ...(setting.fallback === null ? [] : [setting.fallback])];
  const paths = new Set(
    stated.map((one) =>
      /^https?:/.test(one) ? one.replace(/^https?:\/\/[^/]*/, '').replace(/\/$/, '') : '',
    ),
  );
  if (paths.size > 1) {
    refuse(`addresses with several paths in ${setting.name}, of which only the host is used`, at);
  }
  const isLabel =
    setting.values.length > 0 && setting.values.every((one) => /^[a-z0-9][a-z0-9.-]*$/.test(one));
  const choices = setting.values.map((one) => one.replaceAll('.', String.raw`\.`)).join('|');
  const pattern = isLabel && choices.length <= 200 ? choices : isWhole ? wholeHost : label;
  const from = [{ field: setting.name, ...(isWhole ? { origin: true } : {}) }];
  return { setting, host: { from, pattern }, path: [...paths].join('') + suffix };
}

/** A text chosen by a value of the connector: `'eu' if config.region == 'EU' else 'us'`. */
function tableOf(expression: Expression, settings: Settings, at: Component) {
  const map: Record<string, string> = {};
  let next = expression;
  let by: Steps | null = null;
  while (next.kind === 'if') {
    const [test, yes, no]: readonly Expression[] = next.parts;
    const [left, right] =
      test?.kind === 'compare' && test.operator === '=='
        ? test.parts
        : [test, { kind: 'value', value: true } as const];
    if (left?.kind !== 'path' || left.root !== 'config' || right.kind !== 'value' || yes?.kind !== 'value') {
      return null;
    }
    if (by !== null && by.join('.') !== left.steps.join('.')) return null;
    by = left.steps;
    map[plainText(right.value)] = fixedText(yes);
    next = no ?? expression;
  }
  if (by === null || next.kind !== 'value') return null;
  const setting = settings.at(by, at);
  const values = Object.hasOwn(map, 'true') ? ['true', 'false'] : setting.values;
  const others = values.filter((value) => !Object.hasOwn(map, value));
  // Without a list of the values the file does not say which ones the last choice stands for.
  for (const value of others.length > 0 ? others : ['other']) map[value] = fixedText(next);
  return { setting, map };
}
