import { isJsonArray, type JsonObject, type JsonValue } from '../../core/json.ts';
import {
  expressionText,
  fixedText,
  isNothing,
  partsOf,
  rootsOf,
  type Expression,
  type Steps,
} from './expressions.ts';
import type { Component } from './manifest-file.ts';
import { placesIn, refuse, type Setting } from './manifest-settings.ts';
import { oneLine, plainText } from './schemas.ts';
import { hostPattern } from './service-file.ts';

/** The member, which has to be a component of this kind. `what`: how the refusal of another one begins. */
export function needed(of: Component, name: string, kind: string, what: string): Component {
  const part = of.part(name) ?? refuse(`a ${of.type} without ${name}`, of);
  return part.kind === kind ? part : refuse(what, part);
}

/** Texts of a list in a component, which must be fixed. */
export function fixedTexts(component: Component, name: string): readonly string[] {
  const value = component.get(name);
  return (isJsonArray(value) ? value : []).map((one) => {
    const expression = component.parse(plainText(one));
    return expression.kind === 'value'
      ? fixedText(expression)
      : refuse(`${name} with a template in it`, component);
  });
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
export function sentBy(expression: Expression | null, at: Component): Sent {
  if (expression === null) return { kind: 'text', value: '' };
  const sent = read(expression, at);
  if (sent !== null) return sent;
  // Where only values of the connector stand in it, a person gives the text itself.
  if ([...rootsOf(expression)].join() === 'config') return settingOf(at.settings.madeOf(expression, at));
  const what =
    expression.kind === 'join' ? 'a value inside a longer text' : 'a template of a form that is not read';
  return refuse(`${what} (${expressionText(expression)})`, at);
}

/** The text that an expression stands for; an empty text where it is not fixed. */
export function textBy(expression: Expression | null, at: Component): string {
  const sent = sentBy(expression, at);
  return sent.kind === 'text' ? plainText(sent.value) : '';
}

function settingOf(setting: Setting, suffix = ''): Sent {
  return { kind: 'setting', setting, suffix };
}

function read(expression: Expression, at: Component): Sent | null {
  switch (expression.kind) {
    case 'value':
      return { kind: 'text', value: expression.value };
    case 'path':
      return readPath(expression.root, expression.steps, at);
    case 'or':
      return withFallback(expression.parts, at);
    case 'join': {
      const [first, end, ...more] = expression.parts;
      return first?.kind === 'path' && first.root === 'config' && end?.kind === 'value' && more.length === 0
        ? settingOf(at.settings.at(first.steps, at), fixedText(end))
        : null;
    }
    case 'if': {
      const [test, yes, no] = expression.parts;
      const tested = test.kind === 'compare' ? test.parts[0] : test;
      const isFirstPage = tested.kind === 'path' && tested.root === 'token';
      if (isFirstPage && yes.kind === 'value') return sentBy(no, at);
      if (isFirstPage && no.kind === 'value') return sentBy(yes, at);
      const isSame =
        test.kind === 'path' &&
        placesIn(yes).some((steps) => test.steps.every((step, index) => steps[index] === step));
      return isSame || expressionText(test) === expressionText(yes) ? withFallback([yes, no], at) : null;
    }
    case 'call':
      return readCall(expression.name, expression.parts, at);
    case 'and':
    case 'compare':
    case 'not':
    case 'other':
      return null;
  }
}

function readPath(root: string, steps: Steps, at: Component): Sent | null {
  if (root === 'token') return { kind: 'token' };
  if (root === 'config') {
    // Public files name a value that no connector has where they want none.
    return at.settings.isKnown(steps) ? settingOf(at.settings.at(steps, at)) : { kind: 'text', value: '' };
  }
  const text = steps.join('.');
  if (root !== 'slice' || text === '') return null;
  const [, bound] = /^(start|end)_time$/.exec(text) ?? [];
  if (bound !== undefined) return { kind: 'bound', bound: bound === 'start' ? 'from' : 'to', format: null };
  const [, parents = '', name = ''] = /^((?:parent_slice\.)*)(extra_fields\..+|[^.]+)$/.exec(text) ?? [];
  return name === '' ? null : { kind: 'partition', name, above: parents.split('.').length - 1, part: null };
}

/** `config.x or 'text'`, `next_page_token or 1` */
function withFallback([first, second, ...more]: readonly Expression[], at: Component): Sent | null {
  if (first === undefined || second === undefined || more.length > 0) return null;
  // Two places of the same value, in an older form of the configuration and in a newer one.
  if ([first, second].every((part) => part.kind === 'path' && part.root === 'config')) {
    return sentBy(first.kind === 'path' && at.settings.isKnown(first.steps) ? first : second, at);
  }
  const sent = sentBy(first, at);
  if (sent.kind !== 'setting') return sent.kind === 'text' ? null : sent;
  if (isNothing(second)) return sent;
  const fallback = sent.setting.isSecret ? '' : fixedText(second);
  // A value that each run computes: a person gives one.
  return { ...sent, setting: { ...sent.setting, isRequired: fallback === '', fallback: fallback || null } };
}

const clockFormats = new Map([
  ['', 'dateTime'],
  ['%Y-%m-%d', 'date'],
  ['%Y%m%d', 'compactDate'],
  ['%Y-%m-%dT%H:%M:%SZ', 'dateTime'],
  ['%s', 'unix'],
]);

function readCall(name: string, [value, second]: readonly Expression[], at: Component): Sent | null {
  const text = fixedText(second);
  if (name === 'now_utc') return { kind: 'clock', days: 0, format: 'dateTime' };
  if (name === 'today_utc') return { kind: 'clock', days: 0, format: 'date' };
  if (value === undefined) return null;
  switch (name) {
    case 'day_delta': {
      const format = clockFormats.get(text);
      return format === undefined || value.kind !== 'value'
        ? null
        : { kind: 'clock', days: Number(value.value), format };
    }
    case 'format_datetime':
    case 'strftime':
      return value.kind === 'path' && value.root === 'config'
        ? settingOf(at.settings.at(value.steps, at, text))
        : inFormat(sentBy(value, at), text);
    case 'timestamp':
      return inFormat(sentBy(value, at), '%s');
    case '-':
    case '+': {
      const [, days] =
        /^duration\("P(\d+)D"\)$/.exec(second === undefined ? '' : expressionText(second)) ?? [];
      const sent = days === undefined ? null : sentBy(value, at);
      return sent?.kind === 'clock' ? { ...sent, days: sent.days + Number(`${name}${days}`) } : null;
    }
    case 'part': {
      if (value.kind !== 'call' || value.name !== 'split' || second?.kind !== 'value') return null;
      const sent = sentBy(value.parts[0] ?? null, at);
      const part = { split: fixedText(value.parts[1]), part: second.value };
      return sent.kind === 'partition' && typeof second.value === 'number' ? { ...sent, part } : null;
    }
    default:
      return /^(?:int|strip|trim|str_to_datetime)$/.test(name) ? sentBy(value, at) : null;
  }
}

/** The time as a text of this format; null: it is no time, or no run could write it so. */
function inFormat(sent: Sent, text: string): Sent | null {
  if (sent.kind === 'bound') return { ...sent, format: text };
  const format = clockFormats.get(text || 'none');
  return sent.kind === 'clock' && format !== undefined ? { ...sent, format } : null;
}

// --- The address of a request

/**
 * Divides the whole address of a request into its host and its path, whose templates are still in it. `host`: names in
 * the host, and where their values come from.
 */
export function addressOf(given: readonly Expression[], at: Component) {
  const queue = given.flatMap(partsOf);
  const used: Setting[] = [];
  const host: Record<string, JsonValue> = {};
  const [, scheme, start = ''] = /^\s*(?:([a-z]+):\/\/)?(.*)$/s.exec(fixedText(queue[0])) ?? [];
  if (queue[0]?.kind === 'value') queue[0] = { kind: 'value', value: start };
  if (queue[0]?.kind === 'value' && scheme !== 'https') {
    const shown = oneLine(fixedText(given[0]), 60);
    refuse(`an address that is not https (${shown}): credentials are sent there`, at);
  }
  let written = '';
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    const [, before = '', behind = ''] = /^([^/]*)(.*)$/s.exec(fixedText(next)) ?? [];
    written += before;
    if (behind !== '') {
      queue.unshift({ kind: 'value', value: behind });
      break;
    }
    if (next.kind === 'value') continue;
    const isWhole = written === '' && (queue.length === 0 || /^[/:]/.test(fixedText(queue[0])));
    const named = hostName(next, isWhole, at);
    used.push(named.setting);
    host[named.setting.name] = named.host;
    written += `{${named.setting.name}}`;
    if (named.path !== '') queue.unshift({ kind: 'value', value: named.path });
  }
  return { baseUrl: `https://${written}`, host, path: queue, used };
}

/** A name in a host, of a value of the connector or of a table that it chooses from. */
function hostName(part: Expression, isWhole: boolean, at: Component) {
  const table = tableOf(part, at);
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
  const sent = sentBy(inner, at);
  if (sent.kind !== 'setting') return refuse(`a host that is computed (${expressionText(inner)})`, at);
  const { setting, suffix } = sent;
  const stated = [...setting.values, setting.fallback ?? ''].filter((one) => one !== '');
  const paths = new Set(stated.map((one) => /^https?:\/\/[^/]*(.*?)\/?$/.exec(one)?.[1] ?? ''));
  if (paths.size > 1) {
    refuse(`addresses with several paths in ${setting.name}, of which only the host is used`, at);
  }
  const areHosts = setting.values.every((one) => /^[a-z0-9][a-z0-9.-]*$/.test(one));
  const isShort = setting.values.join('|').length <= 200;
  const pattern = hostPattern(areHosts && isShort ? setting.values : [], isWhole);
  const from = [{ field: setting.name, ...(isWhole ? { origin: true } : {}) }];
  return { setting, host: { from, pattern }, path: [...paths].join('') + suffix };
}

/** A text chosen by a value of the connector: `'eu' if config.region == 'EU' else 'us'`. */
function tableOf(expression: Expression, at: Component) {
  const map: Record<string, string> = {};
  let next = expression;
  let by: Steps | null = null;
  while (next.kind === 'if') {
    const [test, yes, no]: readonly [Expression, Expression, Expression] = next.parts;
    const isEqual = test.kind === 'compare' && test.operator === '==';
    const [left, right] = isEqual ? test.parts : [test, { kind: 'value', value: true } as const];
    const isChoice = left.kind === 'path' && left.root === 'config' && right.kind === 'value';
    if (!isChoice || yes.kind !== 'value' || (by ?? left.steps).join('.') !== left.steps.join('.')) {
      return null;
    }
    by = left.steps;
    map[plainText(right.value)] = fixedText(yes);
    next = no;
  }
  if (by === null || next.kind !== 'value') return null;
  const setting = at.settings.at(by, at);
  const values = Object.hasOwn(map, 'true') ? ['true', 'false'] : setting.values;
  const others = values.filter((value) => !Object.hasOwn(map, value));
  // Without a list of the values the file does not say which ones the last choice stands for.
  for (const value of others.length > 0 ? others : ['other']) map[value] = fixedText(next);
  return { setting, map };
}
