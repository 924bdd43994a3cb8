import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { expressionText, isNothing, type Expression, type Steps } from './expressions.ts';
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
  /** What is sent where a connector does not give it; null: nothing. */
  readonly fallback: string | null;
  readonly values: readonly string[];
}

export type Settings = ReturnType<typeof openSettings>;

/** Reads what the file says of the values of a connector, by their places: `credentials.api_key`. */
export function openSettings(spec: JsonObject, computed: ReadonlySet<string>) {
  const found = new Map<string, Setting>();
  const names = new Map<string, string>();
  const shapes = shapesIn(spec);
  const isComputed = (steps: Steps): boolean =>
    computed.has(steps.join('.')) || computed.has(String(steps[0]));
  const nameOf = (place: string, key = place): string => {
    const known = names.get(key);
    if (known !== undefined) return known;
    const taken = new Set(names.values());
    const steps = place.split('.');
    const short = steps.slice(steps.at(-1) === 'as_sent' ? -2 : -1).join('_');
    const whole = [short, place.replaceAll('.', '_'), `${place.replaceAll('.', '_')}_2`];
    const name = whole.map(safeName).find((one) => !taken.has(one)) ?? `setting_${taken.size}`;
    names.set(key, name);
    return name;
  };
  return {
    /** The setting at a place. `format`: how the text is sent, where a template writes a time in another form. */
    at: (steps: Steps, at: Component, format: string | null = null): Setting => {
      const place = steps.join('.');
      if (steps.length === 0 || steps.some((step) => typeof step === 'number')) {
        return refuse('a part of a list in the configuration', at);
      }
      if (isComputed(steps)) {
        return refuse(`the configuration value ${place}, which the file computes`, at);
      }
      const key = format === null ? place : `${place}.as_sent`;
      const known = found.get(key);
      if (known !== undefined) return known;
      const shape = shapes.get(place);
      const stated = oneLine(textIn(shape?.schema, 'title') ?? place, 80);
      const isSecret = partIn(shape?.schema, 'airbyte_secret') === true;
      const fallback = isSecret ? '' : plainText(partIn(shape?.schema, 'default'));
      const setting: Setting = {
        name: nameOf(key),
        title: format === null ? stated : `${stated}, as it is sent (${format})`,
        isSecret,
        isRequired: shape?.isRequired === true && fallback === '',
        fallback: fallback === '' ? null : fallback,
        values: textsIn(shape?.schema, 'enum'),
      };
      found.set(key, setting);
      return setting;
    },
    /** A setting in place of a text that a template makes of values of the connector only. */
    madeOf: (expression: Expression, places: readonly Steps[], at: Component): Setting => {
      const text = oneLine(expressionText(expression), 100);
      const known = found.get(text);
      if (known !== undefined) return known;
      for (const steps of places)
        if (isComputed(steps)) refuse(`a value that the file computes (${text})`, at);
      const isSecret = places.some(
        (steps) => partIn(shapes.get(steps.join('.'))?.schema, 'airbyte_secret') === true,
      );
      const name = nameOf(`${places[0]?.join('.')}.as_sent`, text);
      const title = oneLine(`${name}, as it is sent: ${text}`, 140);
      const setting = { name, title, isSecret, isRequired: true, fallback: null, values: [] };
      found.set(text, setting);
      return setting;
    },
    /** Whether the file describes a value of the connector. */
    isKnown: (steps: Steps): boolean => shapes.size === 0 || shapes.has(steps.join('.')) || isComputed(steps),
    /** Names the places of a connector's values that tell which of several forms it has. */
    isSecretAt: (steps: Steps): boolean =>
      partIn(shapes.get(steps.join('.'))?.schema, 'airbyte_secret') === true,
    shapes,
    all: () => [...found.values()],
  };
}

function safeName(text: string): string {
  const name = text.replaceAll(/[^A-Za-z0-9_.-]+/g, '_').replace(/^[^A-Za-z]+/, '');
  return (name === '' ? 'setting' : name).slice(0, 60);
}

/** Values of a connector by their places, in every form that the file allows. */
function shapesIn(spec: JsonObject) {
  const found = new Map<string, { readonly schema: JsonObject; readonly isRequired: boolean }>();
  const add = (schema: JsonObject, above: string, depth: number): void => {
    if (depth > 5) return;
    const required = textsIn(schema, 'required');
    for (const [name, one] of Object.entries(objectIn(schema, 'properties'))) {
      const place = above === '' ? name : `${above}.${name}`;
      if (!isJsonObject(one)) continue;
      if (!found.has(place)) found.set(place, { schema: one, isRequired: required.includes(name) });
      add(one, place, depth + 1);
    }
    for (const choice of [...listIn(schema, 'oneOf'), ...listIn(schema, 'anyOf')]) {
      if (isJsonObject(choice)) add(choice, above, depth + 1);
    }
  };
  add(spec, '', 0);
  return found;
}

/** What a template of a request stands for. */
export type Sent =
  | { readonly kind: 'text'; readonly value: JsonValue }
  | { readonly kind: 'setting'; readonly setting: Setting; readonly suffix: string }
  /** A value of the parent's record or of a list of values, by its name. `above`: that of the parent's parent. */
  | {
      readonly kind: 'partition';
      readonly name: string;
      readonly above: number;
      readonly part: PartOf | null;
    }
  | { readonly kind: 'bound'; readonly bound: 'from' | 'to'; readonly format: string | null }
  | { readonly kind: 'token' }
  /** A number of days from now, in a format. */
  | { readonly kind: 'clock'; readonly days: number; readonly format: string };

/** A part of a text that is divided at `split`. */
export interface PartOf {
  readonly split: string;
  readonly part: number;
}

/** What an expression of a request stands for. Refuses all other forms. */
export function sentBy(expression: Expression, settings: Settings, at: Component): Sent {
  switch (expression.kind) {
    case 'value':
      return { kind: 'text', value: expression.value };
    case 'path':
      return sentPath(expression.root, expression.steps, settings, at) ?? unknown(expression, settings, at);
    case 'or':
      return withFallback(expression.parts, settings, at) ?? unknown(expression, settings, at);
    case 'join': {
      const [first, end, ...more] = expression.parts;
      if (first?.kind === 'path' && first.root === 'config' && end?.kind === 'value' && more.length === 0) {
        const setting = settings.at(first.steps, at);
        return { kind: 'setting', setting, suffix: plainText(end.value) };
      }
      if (placesIn(expression) !== null) return unknown(expression, settings, at);
      return refuse(`a value that is put together of several (${expressionText(expression)})`, at);
    }
    case 'if':
      return choiceOf(expression, settings, at) ?? unknown(expression, settings, at);
    case 'call':
      return sentCall(expression, settings, at) ?? unknown(expression, settings, at);
    default:
      return unknown(expression, settings, at);
  }
}

/** A template of another form: where only values of the connector are in it, a person gives the text itself. */
function unknown(expression: Expression, settings: Settings, at: Component): Sent {
  const places = placesIn(expression);
  if (places !== null && places.length > 0) {
    return { kind: 'setting', setting: settings.madeOf(expression, places, at), suffix: '' };
  }
  return refuse(`a template of a form that is not read: ${expressionText(expression)}`, at);
}

/** The values of the connector in an expression; null: there is something else in it. */
function placesIn(expression: Expression): readonly Steps[] | null {
  const all = (parts: readonly Expression[]): readonly Steps[] | null => {
    const found = parts.map(placesIn);
    return found.every((one) => one !== null) ? found.flat() : null;
  };
  switch (expression.kind) {
    case 'value':
      return [];
    case 'path':
      return expression.root === 'config' ? [expression.steps] : null;
    case 'or':
    case 'and':
    case 'join':
      return all(expression.parts);
    case 'not':
      return placesIn(expression.part);
    case 'compare':
      return all([expression.left, expression.right]);
    case 'if':
      return all([expression.test, expression.yes, expression.no]);
    case 'call':
      return /^(?:now_utc|today_utc|day_delta)$/.test(expression.name) ? null : all(expression.args);
    case 'other':
      return null;
  }
}

function sentPath(root: string, steps: Steps, settings: Settings, at: Component): Sent | null {
  const [first, ...rest] = steps;
  if (root === 'config') {
    // Public files name a value that no connector has where they want none.
    if (!settings.isKnown(steps)) return { kind: 'text', value: '' };
    return { kind: 'setting', setting: settings.at(steps, at), suffix: '' };
  }
  if (root === 'token') return { kind: 'token' };
  if (root !== 'slice' || typeof first !== 'string') return null;
  if (rest.length === 0 && (first === 'start_time' || first === 'end_time')) {
    return { kind: 'bound', bound: first === 'start_time' ? 'from' : 'to', format: null };
  }
  if (first === 'extra_fields') {
    return { kind: 'partition', name: steps.join('.'), above: 0, part: null };
  }
  const above = steps.findIndex((step) => step !== 'parent_slice');
  const name = steps[above];
  if (typeof name !== 'string' || above < 0 || steps.length !== above + 1) return null;
  return { kind: 'partition', name, above, part: null };
}

/** `config.x or 'text'`, `next_page_token or 1` */
function withFallback(parts: readonly Expression[], settings: Settings, at: Component): Sent | null {
  const [first, second, ...more] = parts;
  if (first === undefined || second === undefined || more.length > 0) return null;
  // Two places of the same value, in an older form of the configuration and in a newer one.
  if (
    first.kind === 'path' &&
    second.kind === 'path' &&
    first.root === 'config' &&
    second.root === 'config'
  ) {
    return sentBy(settings.shapes.has(first.steps.join('.')) ? first : second, settings, at);
  }
  const sent = sentBy(first, settings, at);
  if (sent.kind === 'token' || sent.kind === 'bound') return sent;
  if (sent.kind !== 'setting') return null;
  if (isNothing(second)) return sent;
  // A value that each run computes: a person gives one.
  if (placesIn(second) === null && second.kind === 'call') {
    return { ...sent, setting: { ...sent.setting, isRequired: true } };
  }
  const other = sentBy(second, settings, at);
  if (other.kind === 'text') {
    const fallback = sent.setting.isSecret ? null : plainText(other.value);
    return { ...sent, setting: { ...sent.setting, isRequired: fallback === null, fallback } };
  }
  return other.kind === 'clock' ? { ...sent, setting: { ...sent.setting, isRequired: true } } : null;
}

/** `config.x if config.x else 'text'`, `config.x if config.x`, and a test for the first page. */
function choiceOf(
  { test, yes, no }: Extract<Expression, { kind: 'if' }>,
  settings: Settings,
  at: Component,
): Sent | null {
  const isSame = JSON.stringify(test) === JSON.stringify(yes);
  const tested = test.kind === 'compare' ? test.left : test;
  const isChoice = test.kind === 'path' && test.root === 'config';
  if (isSame || (isChoice && placesIn(yes)?.some((steps) => isWithin(steps, test.steps)) === true)) {
    return withFallback([yes, no], settings, at);
  }
  if (tested.kind === 'path' && tested.root === 'token') {
    const [a, b] = [sentBy(yes, settings, at), sentBy(no, settings, at)];
    if (a.kind === 'token' && (b.kind === 'text' || isNothing(no))) return a;
    if (b.kind === 'token' && a.kind === 'text') return b;
  }
  return null;
}

function isWithin(steps: Steps, above: Steps): boolean {
  return above.every((step, index) => steps[index] === step);
}

const clockFormats = new Map([
  ['%Y-%m-%d', 'date'],
  ['%Y%m%d', 'compactDate'],
  ['%Y-%m-%dT%H:%M:%SZ', 'dateTime'],
  ['%s', 'unix'],
]);

function sentCall(
  { name, args }: Extract<Expression, { kind: 'call' }>,
  settings: Settings,
  at: Component,
): Sent | null {
  const [value, second] = args;
  const text = second?.kind === 'value' ? plainText(second.value) : '';
  if (name === 'day_delta' || name === 'now_utc' || name === 'today_utc') return clockOf(name, args);
  if (value === undefined) return null;
  if (name === 'format_datetime' || name === 'strftime') {
    const inner = value.kind === 'call' && value.name === 'str_to_datetime' ? value.args[0] : value;
    if (inner === undefined || text === '') return null;
    const sent = sentBy(inner, settings, at);
    if (sent.kind === 'bound') return { ...sent, format: text };
    if (sent.kind === 'clock') {
      const format = clockFormats.get(text);
      return format === undefined ? null : { ...sent, format };
    }
    if (sent.kind !== 'setting' || inner.kind !== 'path') return null;
    return { ...sent, setting: settings.at(inner.steps, at, text) };
  }
  if (name === 'timestamp' || (name === 'int' && value.kind === 'call')) {
    const sent = sentBy(value, settings, at);
    if (sent.kind === 'clock') return { ...sent, format: 'unix' };
    return sent.kind === 'bound' ? { ...sent, format: '%s' } : null;
  }
  if (name === '+' || name === '-') return addedDays(name, value, second, settings, at);
  if (name === 'int' || name === 'strip' || name === 'trim') return sentBy(value, settings, at);
  if (name === 'part') return partOfValue(value, second, settings, at);
  return null;
}

function clockOf(name: string, args: readonly Expression[]): Sent | null {
  if (name !== 'day_delta') return { kind: 'clock', days: 0, format: name === 'today_utc' ? 'date' : '' };
  const [days, format] = args;
  if (days?.kind !== 'value' || typeof days.value !== 'number') return null;
  const known = format?.kind === 'value' ? clockFormats.get(plainText(format.value)) : '';
  return known === undefined ? null : { kind: 'clock', days: days.value, format: known };
}

/** `now_utc() - duration('P30D')` */
function addedDays(
  name: '+' | '-',
  value: Expression,
  second: Expression | undefined,
  settings: Settings,
  at: Component,
): Sent | null {
  if (second?.kind !== 'call' || second.name !== 'duration') return null;
  const length = second.args[0]?.kind === 'value' ? /^P(\d+)D$/.exec(plainText(second.args[0].value)) : null;
  const sent = sentBy(value, settings, at);
  if (length === null || sent.kind !== 'clock') return null;
  return { ...sent, days: sent.days + (name === '-' ? -1 : 1) * Number(length[1]) };
}

/** `stream_partition.id.split('/')[-1]` */
function partOfValue(
  value: Expression,
  position: Expression | undefined,
  settings: Settings,
  at: Component,
): Sent | null {
  if (value.kind !== 'call' || value.name !== 'split' || position?.kind !== 'value') return null;
  const [text, sign] = value.args;
  if (text === undefined || sign?.kind !== 'value' || typeof position.value !== 'number') return null;
  const sent = sentBy(text, settings, at);
  if (sent.kind !== 'partition') return null;
  return { ...sent, part: { split: plainText(sign.value), part: position.value } };
}

// --- The address of a request

export interface Address {
  readonly baseUrl: string;
  /** Names in the host, and where their values come from. */
  readonly host: JsonObject;
  /** The path behind the address; its templates are still in it. */
  readonly path: readonly Expression[];
}

const label = '[a-z0-9][a-z0-9-]{0,62}';
const wholeHost = String.raw`${label}(\.${label}){1,5}`;

/** Divides the whole address of a request into its host and its path. */
export function addressOf(url: Expression, settings: Settings, used: Setting[], at: Component): Address {
  const parts = url.kind === 'join' ? url.parts : [url];
  const [first, ...rest] = parts;
  if (first === undefined) return refuse('a request without an address', at);
  const table = tableOf(first, settings, at);
  if (table !== null) return addressOfTable(table, rest, used, at);
  if (first.kind !== 'value') return wholeOrigin(first, rest, settings, used, at);
  const text = plainText(first.value).trim();
  const [, scheme = '', after = ''] = /^([a-z]+):\/\/(.*)$/s.exec(text) ?? [];
  if (scheme !== 'https') {
    return refuse(`an address that is not https (${oneLine(text, 60)}): credentials are sent there`, at);
  }
  if (after === '' && rest[0]?.kind !== 'value' && rest[0] !== undefined) {
    const choice = tableOf(rest[0], settings, at);
    if (choice !== null) return addressOfTable(choice, rest.slice(1), used, at);
  }
  const host: Record<string, JsonValue> = {};
  let written = '';
  const queue: Expression[] = [{ kind: 'value', value: after }, ...rest];
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    if (next.kind === 'value') {
      const value = plainText(next.value);
      const slash = value.indexOf('/');
      written += slash < 0 ? value : value.slice(0, slash);
      if (slash < 0) continue;
      queue.unshift({ kind: 'value', value: value.slice(slash) });
      break;
    }
    const choice = tableOf(next, settings, at);
    const sent = choice ?? sentBy(next, settings, at);
    if (sent.kind !== 'setting' && sent.kind !== 'table') return refuse('a host that is not fixed', at);
    const { setting } = sent;
    used.push(setting);
    const isWhole = written === '' && (queue.length === 0 || /^[/:]/.test(textOf(queue[0])));
    const values = sent.kind === 'table' ? Object.values(sent.map) : setting.values;
    const isLabel = values.length > 0 && values.every((one) => /^[a-z0-9][a-z0-9.-]*$/.test(one));
    host[setting.name] = {
      from: [{ field: setting.name, ...(isWhole && sent.kind === 'setting' ? { origin: true } : {}) }],
      ...(sent.kind === 'table' ? { map: sent.map } : {}),
      pattern: isLabel ? choices(values) : isWhole ? wholeHost : label,
    };
    written += `{${setting.name}}${sent.kind === 'setting' ? sent.suffix : ''}`;
  }
  return { baseUrl: `https://${written}`, host, path: queue };
}

function textOf(part: Expression | undefined): string {
  return part?.kind === 'value' ? plainText(part.value) : '';
}

function choices(values: readonly string[]): string {
  return [...new Set(values)]
    .map((one) => one.replaceAll('.', String.raw`\.`))
    .join('|')
    .slice(0, 200);
}

/** A connector gives the address as a whole. */
function wholeOrigin(
  first: Expression,
  rest: readonly Expression[],
  settings: Settings,
  used: Setting[],
  at: Component,
): Address {
  const bare =
    first.kind === 'call' && ['rstrip', 'strip', 'replace', 'trim', 'sanitize_url'].includes(first.name);
  const inner = bare ? (first.args[0] ?? first) : first;
  if (placesIn(inner) === null)
    refuse(`an address that is taken from a record (${expressionText(inner)})`, at);
  const sent = sentBy(inner, settings, at);
  if (sent.kind !== 'setting') return refuse('an address that is computed', at);
  const { setting } = sent;
  const stated = [...setting.values, ...(setting.fallback === null ? [] : [setting.fallback])];
  const paths = new Set(stated.map((one) => one.replace(/^https?:\/\/[^/]*/, '').replace(/\/$/, '')));
  if (paths.size > 1)
    refuse(`addresses with several paths in ${setting.name}, of which only the host is used`, at);
  const [shared = ''] = stated.some((one) => /^https?:/.test(one)) ? paths : [];
  used.push(setting);
  const host = { [setting.name]: { from: [{ field: setting.name, origin: true }], pattern: wholeHost } };
  const prefix = shared + sent.suffix;
  const path = prefix === '' ? rest : [{ kind: 'value', value: prefix } as const, ...rest];
  return { baseUrl: `https://{${setting.name}}`, host, path };
}

interface Table {
  readonly kind: 'table';
  readonly setting: Setting;
  readonly map: Readonly<Record<string, string>>;
}

/** A text chosen by a value of the connector: `'eu' if config.region == 'EU' else 'us'`, `{...}[config.region]`. */
function tableOf(expression: Expression, settings: Settings, at: Component): Table | null {
  const map: Record<string, string> = {};
  if (expression.kind === 'call' && expression.name === 'choose') {
    const [by, ...entries] = expression.args;
    if (by?.kind !== 'path' || by.root !== 'config') return null;
    for (let index = 0; index + 1 < entries.length; index += 2) {
      map[textOf(entries[index])] = textOf(entries[index + 1]);
    }
    return { kind: 'table', setting: settings.at(by.steps, at), map };
  }
  let next: Expression = expression;
  let steps: Steps | null = null;
  let values: readonly string[] = [];
  while (next.kind === 'if') {
    const { test, yes, no }: Extract<Expression, { kind: 'if' }> = next;
    const { left, right } =
      test.kind === 'path' ? { left: test, right: { kind: 'value', value: true } as const } : sides(test);
    if (left?.kind !== 'path' || left.root !== 'config' || right?.kind !== 'value' || yes.kind !== 'value')
      return null;
    if (steps !== null && steps.join('.') !== left.steps.join('.')) return null;
    ({ steps } = left);
    values = test.kind === 'path' ? ['true', 'false'] : settings.at(steps, at).values;
    map[plainText(right.value)] = plainText(yes.value);
    next = no;
  }
  if (steps === null || next.kind !== 'value') return null;
  const setting = settings.at(steps, at);
  const others = values.filter((value) => !Object.hasOwn(map, value));
  // Without a list of the values nobody can say which ones the last choice stands for.
  for (const value of others.length > 0 ? others : ['other']) map[value] = plainText(next.value);
  return { kind: 'table', setting, map };
}

function sides(test: Expression): { readonly left?: Expression; readonly right?: Expression } {
  return test.kind === 'compare' && test.operator === '==' ? test : {};
}

/** The choices are whole addresses, or begin with a host. */
function addressOfTable(
  { setting, map }: Table,
  rest: readonly Expression[],
  used: Setting[],
  at: Component,
): Address {
  const parts = Object.entries(map).map(([value, url]) => {
    const [, host = '', path = ''] = /^(?:https:\/\/)?([^/:]+)(\/.*)?$/.exec(url) ?? [];
    return { value, host, path };
  });
  const [first] = parts;
  if (first === undefined || parts.some(({ host, path }) => host === '' || path !== first.path)) {
    return refuse('addresses to choose from that differ in more than the host', at);
  }
  used.push(setting);
  const hosts = Object.fromEntries(parts.map(({ value, host }) => [value, host]));
  const from = [{ field: setting.name }];
  const pattern = choices(Object.values(hosts));
  return {
    baseUrl: `https://{${setting.name}}`,
    host: { [setting.name]: { from, map: hosts, pattern } },
    path: first.path === '' ? rest : [{ kind: 'value', value: first.path }, ...rest],
  };
}
