// Its interpreter is never imported: templates are data here.
import { parse, tokenize } from '@huggingface/jinja';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import { oneLine, partIn, plainText } from './schemas.ts';

/**
 * A text of a manifest with its templates as data. Nothing of it is ever run: a template of another form than these
 * is `other`, and `why` says what it does.
 */
export type Expression =
  | { readonly kind: 'value'; readonly value: JsonValue }
  /** A value at names and positions from one of `roots`. */
  | { readonly kind: 'path'; readonly root: Root; readonly steps: Steps }
  /** Texts and values one after another. */
  | { readonly kind: 'join'; readonly parts: readonly Expression[] }
  | { readonly kind: 'or' | 'and'; readonly parts: readonly Expression[] }
  | { readonly kind: 'not'; readonly part: Expression }
  | {
      readonly kind: 'compare';
      readonly operator: string;
      readonly left: Expression;
      readonly right: Expression;
    }
  /** A function, method or filter by name, or a sign of arithmetic. `args`: the value it is called on comes first. */
  | { readonly kind: 'call'; readonly name: string; readonly args: readonly Expression[] }
  | { readonly kind: 'if'; readonly test: Expression; readonly yes: Expression; readonly no: Expression }
  | { readonly kind: 'other'; readonly why: string };

export type Steps = readonly (string | number)[];
export type Root = (typeof roots)[keyof typeof roots];
export type PathExpression = Extract<Expression, { kind: 'path' }>;

/** The variables of a template. Other names are refused. */
const roots = {
  config: 'config',
  record: 'record',
  response: 'response',
  decoded_response: 'response',
  headers: 'headers',
  last_record: 'last_record',
  last_records: 'last_records',
  last_page_size: 'last_page_size',
  next_page_token: 'token',
  stream_slice: 'slice',
  stream_partition: 'slice',
  stream_interval: 'slice',
  stream_state: 'state',
  parameters: 'parameters',
} as const;

const functions: ReadonlySet<string> = new Set([
  ...['format_datetime', 'now_utc', 'today_utc', 'day_delta', 'duration', 'timestamp', 'str_to_datetime'],
  ...['max', 'min', 'length', 'count', 'int', 'float', 'lower', 'upper', 'strip', 'trim', 'split', 'replace'],
  ...[
    'strftime',
    'isoformat',
    'hash',
    'base64encode',
    'urlencode',
    'regex_search',
    'tojson',
    'last',
    'first',
  ],
  ...[
    'rstrip',
    'lstrip',
    'startswith',
    'endswith',
    'join',
    'items',
    'keys',
    'values',
    'list',
    'round',
    'slice',
    'sanitize_url',
  ],
]);
/** Filters and functions that only write a value as a text. */
const asText: ReadonlySet<string> = new Set(['string', 'str', 'safe']);

/** Far above the longest template of a public manifest, which has 1,107 characters. */
const mostCharacters = 4_000;
const mostDepth = 60;

/** Parses a text of a manifest; `parameters` stand for themselves in it. Never throws. */
export function parseExpression(text: string, parameters: JsonObject): Expression {
  if (!/\{[{%#]/.test(text)) return { kind: 'value', value: text };
  if (text.length > mostCharacters) return other(`a template of more than ${mostCharacters} characters`);
  let body: readonly Node[];
  try {
    // `as`: the nodes of the library, of which each part is checked before it is used.
    ({ body } = parse(tokenize(withEscapes(text))) as unknown as { readonly body: readonly Node[] });
  } catch {
    // The library throws for every mistake, an exhausted stack among them.
    return other(`a template that cannot be parsed: ${oneLine(text, 80)}`);
  }
  const parts = body.map((node) => converted(node, parameters, 0));
  return joined(parts.filter((part) => part.kind !== 'value' || part.value !== ''));
}

/** An escape without a meaning stands for itself, as in Python; the library takes it for a mistake. */
function withEscapes(text: string): string {
  return text.replaceAll(/\{\{[^]*?\}\}|\{%[^]*?%\}/g, (template) =>
    template.replaceAll(/\\([^nrtbfvxu'"\\])/g, String.raw`\\$1`),
  );
}

function joined(parts: readonly Expression[]): Expression {
  const [only, ...more] = parts;
  if (only !== undefined && more.length === 0) return only;
  const bad = parts.find((part) => part.kind === 'other');
  if (bad !== undefined) return bad;
  const texts = parts.map((part) => (part.kind === 'value' ? plainText(part.value) : null));
  if (texts.every((text) => text !== null)) return { kind: 'value', value: texts.join('') };
  return withoutQuotes(parts);
}

/** A text in quotes stands for the text, as the program that runs these templates takes it. */
function withoutQuotes(parts: readonly Expression[]): Expression {
  const [first, last] = [parts[0], parts.at(-1)].map((part) =>
    part?.kind === 'value' ? plainText(part.value) : '',
  );
  const quote = first?.[0] ?? '';
  if (!['"', "'"].includes(quote) || last?.at(-1) !== quote) return { kind: 'join', parts };
  const inner = [first?.slice(1) ?? '', ...parts.slice(1, -1), last.slice(0, -1)];
  const found = inner.map((part): Expression =>
    typeof part === 'string' ? { kind: 'value', value: part } : part,
  );
  const rest = found.filter((part) => part.kind !== 'value' || part.value !== '');
  const [only, ...more] = rest;
  return only !== undefined && more.length === 0 ? only : { kind: 'join', parts: rest };
}

function other(why: string): Expression {
  return { kind: 'other', why };
}

interface Node {
  readonly type: string;
  readonly [part: string]: unknown;
}

/** Converts a node and everything below it. */
function converted(value: unknown, parameters: JsonObject, depth: number): Expression {
  // `as`: nodes of the library are objects with a type; all else has none and is refused below.
  const node = value as Node | undefined;
  if (depth > mostDepth) return other('a template with too much nesting');
  const inner = (part: unknown): Expression => converted(part, parameters, depth + 1);
  switch (node?.type) {
    case 'StringLiteral':
    case 'IntegerLiteral':
    case 'FloatLiteral':
      // `as`: literals hold texts and numbers.
      return { kind: 'value', value: node['value'] as JsonValue };
    case 'Identifier':
      return identifier(String(node['value']));
    case 'ArrayLiteral':
    case 'TupleLiteral': {
      const values = listOf(node['value']).map(inner);
      if (values.every((one) => one.kind === 'value')) {
        return { kind: 'value', value: values.map(({ value: one }) => one) };
      }
      return { kind: 'call', name: 'list', args: values };
    }
    case 'ObjectLiteral': {
      const entries = node['value'] instanceof Map ? [...node['value']] : [];
      if (entries.length === 0) return { kind: 'value', value: {} };
      return { kind: 'call', name: 'object', args: entries.flat().map(inner) };
    }
    case 'MemberExpression':
      return member(node, inner, parameters);
    case 'CallExpression':
      return called(node, inner, parameters);
    case 'FilterExpression':
      return filtered(node, inner);
    case 'BinaryExpression':
      return binary(node, inner);
    case 'UnaryExpression': {
      const part = inner(node['argument']);
      const sign = plainText(partIn(node['operator'] as JsonObject, 'value'));
      if (sign === 'not') return { kind: 'not', part };
      if (sign === '-' && part.kind === 'value' && typeof part.value === 'number') {
        return { kind: 'value', value: -part.value };
      }
      return other(`the sign ${sign} before a value`);
    }
    case 'TestExpression':
      return tested(node, inner);
    case 'Ternary':
      return {
        kind: 'if',
        test: inner(node['condition']),
        yes: inner(node['trueExpr']),
        no: inner(node['falseExpr']),
      };
    case 'If':
      return statement(node, inner);
    case 'SelectExpression':
      return {
        kind: 'if',
        test: inner(node['test']),
        yes: inner(node['lhs']),
        no: { kind: 'value', value: '' },
      };
    case 'Comment':
      return { kind: 'value', value: '' };
    default:
      return other(`${node?.type ?? 'nothing'} in a template`);
  }
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** `{% if a %}b{% else %}c{% endif %}` */
function statement(node: Node, inner: (part: unknown) => Expression): Expression {
  const [yes, no] = ['body', 'alternate'].map((part) => {
    const parts = listOf(node[part]).map(inner);
    return parts.length === 0 ? ({ kind: 'value', value: '' } as const) : joined(parts);
  });
  if (yes === undefined || no === undefined) return other('an empty condition');
  return { kind: 'if', test: inner(node['test']), yes, no };
}

const words = new Map<string, JsonValue>([
  ...(['true', 'True'] as const).map((name) => [name, true] as const),
  ...(['false', 'False'] as const).map((name) => [name, false] as const),
  ...(['none', 'None', 'null'] as const).map((name) => [name, null] as const),
]);

function identifier(name: string): Expression {
  const word = words.get(name);
  if (word !== undefined) return { kind: 'value', value: word };
  if (Object.hasOwn(roots, name)) {
    // `as`: `hasOwn` has found it.
    return { kind: 'path', root: roots[name as keyof typeof roots], steps: [] };
  }
  return other(`the name ${oneLine(name, 40)} in a template`);
}

function member(node: Node, inner: (part: unknown) => Expression, parameters: JsonObject): Expression {
  const object = inner(node['object']);
  const property = node['property'] as Node | undefined;
  const isName = node['computed'] !== true && property?.type === 'Identifier';
  if (property?.type === 'SliceExpression') return call('slice', [object]);
  const step: Expression = isName ? { kind: 'value', value: String(property['value']) } : inner(property);
  if (step.kind === 'value') return stepInto(object, step.value, parameters);
  // A value chosen from a table by another one.
  if (object.kind === 'call' && object.name === 'object') {
    return { kind: 'call', name: 'choose', args: [step, ...object.args] };
  }
  return step.kind === 'other' ? step : other('a member whose name is computed');
}

function stepInto(object: Expression, step: JsonValue, parameters: JsonObject): Expression {
  if (typeof step !== 'string' && typeof step !== 'number') return other('a member without a name');
  if (typeof step === 'string' && /^__|^(?:constructor|prototype)$/.test(step)) {
    return other(`the member ${oneLine(step, 40)} of a value`);
  }
  if (object.kind === 'path' && object.root === 'parameters' && object.steps.length === 0) {
    const value = partIn(parameters, String(step));
    if (value === undefined) return { kind: 'value', value: null };
    return typeof value === 'string' ? parseExpression(value, {}) : { kind: 'value', value };
  }
  if (object.kind === 'path') return { ...object, steps: [...object.steps, step] };
  if (object.kind === 'call') {
    return { kind: 'call', name: 'part', args: [object, { kind: 'value', value: step }] };
  }
  return object.kind === 'other' ? object : other('a member of a computed value');
}

function called(node: Node, inner: (part: unknown) => Expression, parameters: JsonObject): Expression {
  const callee = node['callee'] as Node | undefined;
  const args = listOf(node['args']).map((one) => {
    const arg = one as Node | undefined;
    return inner(arg?.type === 'KeywordArgumentExpression' ? arg['value'] : arg);
  });
  if (callee?.type === 'Identifier') return call(String(callee['value']), args);
  if (callee?.type !== 'MemberExpression') return other('a call of a computed value');
  const property = callee['property'] as Node | undefined;
  const name = String(property?.['value']);
  const object = inner(callee['object']);
  if (name !== 'get') return call(name, [object, ...args]);
  const [step, fallback] = args;
  if (step?.kind !== 'value') return other('a member whose name is computed');
  const found = stepInto(object, step.value, parameters);
  if (found.kind === 'value' && fallback !== undefined) return isNothing(found) ? fallback : found;
  return fallback === undefined || isNothing(fallback) ? found : { kind: 'or', parts: [found, fallback] };
}

/** A default that stands for an absent value. */
export function isNothing(value: Expression): boolean {
  if (value.kind !== 'value') return false;
  const text = JSON.stringify(value.value);
  return ['null', '""', '{}', '[]', 'false', '0'].includes(text);
}

function call(name: string, args: readonly Expression[]): Expression {
  const bad = args.find((arg) => arg.kind === 'other');
  if (bad !== undefined) return bad;
  const [first] = args;
  if (asText.has(name) && first !== undefined) return first;
  return functions.has(name) ? { kind: 'call', name, args } : other(`a call of ${oneLine(name, 40)}`);
}

function filtered(node: Node, inner: (part: unknown) => Expression): Expression {
  const filter = node['filter'] as Node | undefined;
  const operand = inner(node['operand']);
  const isCall = filter?.type === 'CallExpression';
  const named = (isCall ? filter['callee'] : filter) as Node | undefined;
  const args = isCall ? listOf(filter['args']).map(inner) : [];
  const name = String(named?.['value']);
  if (name !== 'default') return call(name, [operand, ...args]);
  const [fallback] = args;
  return fallback === undefined || isNothing(fallback) ? operand : { kind: 'or', parts: [operand, fallback] };
}

function binary(node: Node, inner: (part: unknown) => Expression): Expression {
  const [left, right] = [inner(node['left']), inner(node['right'])];
  const operator = String((node['operator'] as Node | undefined)?.['value']);
  const bad = [left, right].find((side) => side.kind === 'other');
  if (bad !== undefined) return bad;
  if (operator === 'or' || operator === 'and') {
    if (left.kind === 'value') return isNothing(left) === (operator === 'or') ? right : left;
    const parts = [left, right].flatMap((side) => (side.kind === operator ? side.parts : [side]));
    return operator === 'or' && isNothing(right) ? left : { kind: operator, parts };
  }
  if (operator === '~' || (operator === '+' && [left, right].some(isText))) {
    return joined([left, right].flatMap((side) => (side.kind === 'join' ? side.parts : [side])));
  }
  if (/^(?:[+*/%-]|\/\/|\*\*)$/.test(operator)) return { kind: 'call', name: operator, args: [left, right] };
  return { kind: 'compare', operator, left, right };
}

function isText(side: Expression): boolean {
  return side.kind === 'join' || (side.kind === 'value' && typeof side.value === 'string');
}

const tests = new Map<string, JsonValue>([
  ['none', null],
  ['None', null],
  ['null', null],
  ['false', false],
  ['False', false],
  ['true', true],
  ['True', true],
]);

/** `is none`, `is not defined`, `is false`; `is defined` is the opposite of `is none`. */
function tested(node: Node, inner: (part: unknown) => Expression): Expression {
  const left = inner(node['operand']);
  if (left.kind === 'other') return left;
  const name = String((node['test'] as Node | undefined)?.['value']);
  const isNegated = (node['negate'] === true) !== (name === 'defined');
  const value = name === 'defined' || name === 'undefined' ? null : tests.get(name);
  if (value === undefined) return other(`the test ${oneLine(name, 40)} in a template`);
  return { kind: 'compare', operator: isNegated ? '!=' : '==', left, right: { kind: 'value', value } };
}

/** Names the first part of an expression that no rule knows, for a message. */
export function expressionText(expression: Expression): string {
  switch (expression.kind) {
    case 'value':
      return oneLine(JSON.stringify(expression.value), 60);
    case 'path':
      return [expression.root, ...expression.steps].join('.');
    case 'join':
      return expression.parts.map(expressionText).join(' and ');
    case 'or':
    case 'and':
      return expression.parts.map(expressionText).join(` ${expression.kind} `);
    case 'not':
      return `not ${expressionText(expression.part)}`;
    case 'compare':
      return `${expressionText(expression.left)} ${expression.operator} ${expressionText(expression.right)}`;
    case 'call':
      return `${expression.name}(${expression.args.map(expressionText).join(', ')})`;
    case 'if':
      return `a choice by ${expressionText(expression.test)}`;
    case 'other':
      return expression.why;
  }
}
