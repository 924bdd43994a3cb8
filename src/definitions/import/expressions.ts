// Its interpreter is never imported: templates are data here.
import { parse, tokenize } from '@huggingface/jinja';
import { isJsonArray, type JsonObject, type JsonValue } from '../../core/json.ts';
import { listIn, oneLine, partIn, plainText, textIn } from './schemas.ts';

/**
 * A text of a manifest with its templates as data. Nothing of it is ever run: a template of another form than these
 * is `other`, and `why` says what it does.
 */
export type Expression =
  | { readonly kind: 'value'; readonly value: JsonValue }
  /** A value at names and positions from one of `roots`. */
  | { readonly kind: 'path'; readonly root: string; readonly steps: Steps }
  /** `join`: texts and values one after another. */
  | { readonly kind: 'join' | 'or' | 'and'; readonly parts: readonly Expression[] }
  | { readonly kind: 'not'; readonly parts: readonly [Expression] }
  /** `parts`: both sides. */
  | { readonly kind: 'compare'; readonly operator: string; readonly parts: readonly [Expression, Expression] }
  /** A function, method or filter, or a sign of arithmetic. `parts`: the value it is called on comes first. */
  | { readonly kind: 'call'; readonly name: string; readonly parts: readonly Expression[] }
  /** `parts`: the test, the value where it holds, and the other one. */
  | { readonly kind: 'if'; readonly parts: readonly [Expression, Expression, Expression] }
  | { readonly kind: 'other'; readonly why: string };

export type Steps = readonly (string | number)[];

/** The variables of a template, and what they are called here. Other names are refused. */
const roots = new Map([
  ...['config', 'record', 'response', 'headers', 'last_record', 'last_records'].map(
    (name) => [name, name] as const,
  ),
  ...['last_page_size', 'parameters'].map((name) => [name, name] as const),
  ...['stream_slice', 'stream_partition', 'stream_interval'].map((name) => [name, 'slice'] as const),
  ['decoded_response', 'response'],
  ['next_page_token', 'token'],
  ['stream_state', 'state'],
]);

const functions: ReadonlySet<string> = new Set([
  'format_datetime',
  'now_utc',
  'today_utc',
  'day_delta',
  'duration',
  'timestamp',
  'str_to_datetime',
  'max',
  'min',
  'length',
  'count',
  'int',
  'float',
  'lower',
  'upper',
  'strip',
  'trim',
  'split',
  'replace',
  'strftime',
  'isoformat',
  'hash',
  'base64encode',
  'urlencode',
  'regex_search',
  'tojson',
  'last',
  'first',
  'rstrip',
  'lstrip',
  'join',
  'items',
  'keys',
  'values',
  'list',
  'round',
  'slice',
  'sanitize_url',
]);

const words = new Map<string, JsonValue>([
  ...['true', 'True'].map((name) => [name, true] as const),
  ...['false', 'False'].map((name) => [name, false] as const),
  ...['none', 'None', 'null', 'undefined', 'defined'].map((name) => [name, null] as const),
]);

/** Far above the longest template of a public manifest, which has 1,107 characters. */
const mostCharacters = 4_000;
const mostDepth = 60;

/** Parses a text of a manifest; `parameters` stand for themselves in it. Never throws. */
export function parseExpression(text: string, parameters: JsonObject): Expression {
  if (!/\{[{%#]/.test(text)) return valueOf(text);
  if (text.length > mostCharacters) return other(`a template of more than ${mostCharacters} characters`);
  try {
    // `as`: nodes are objects with a type, of which each part is checked before it is used.
    const program = parse(tokenize(withEscapes(text))) as unknown as JsonObject;
    return joined(listIn(program, 'body').map((node) => convert(node, parameters, 0)));
  } catch {
    // The library throws for every mistake, an exhausted stack among them.
    return other(`a template that cannot be parsed: ${oneLine(text, 80)}`);
  }
}

/** An escape without a meaning stands for itself, as in Python; the library takes it for a mistake. */
function withEscapes(text: string): string {
  return text.replaceAll(/\{\{[^]*?\}\}|\{%[^]*?%\}/g, (template) =>
    template.replaceAll(/\\([^nrtbfvxu'"\\])/g, String.raw`\\$1`),
  );
}

function other(why: string): Expression {
  return { kind: 'other', why };
}

function valueOf(value: JsonValue): Expression {
  return { kind: 'value', value };
}

/** The text of a fixed value; an empty text for everything else. */
export function fixedText(part: Expression | null | undefined): string {
  return part?.kind === 'value' ? plainText(part.value) : '';
}

function joined(given: readonly Expression[]): Expression {
  const all = given.flatMap((part) => (part.kind === 'join' ? part.parts : [part]));
  const bad = all.find((part) => part.kind === 'other');
  if (bad !== undefined) return bad;
  const parts = withoutQuotes(
    all.length === 1 ? all : all.filter((part) => part.kind !== 'value' || fixedText(part) !== ''),
  );
  const [only, ...more] = parts;
  if (only !== undefined && more.length === 0) return only;
  return parts.every((part) => part.kind === 'value')
    ? valueOf(parts.map(fixedText).join(''))
    : { kind: 'join', parts };
}

/** A text in quotes stands for the text, as the program that runs these templates takes it. */
function withoutQuotes(parts: readonly Expression[]): readonly Expression[] {
  const [first, last] = [fixedText(parts[0]), fixedText(parts.at(-1))];
  if (parts.length < 2 || !/^["']/.test(first) || last.at(-1) !== first[0]) return parts;
  const inner = [valueOf(first.slice(1)), ...parts.slice(1, -1), valueOf(last.slice(0, -1))];
  return inner.filter((part) => part.kind !== 'value' || fixedText(part) !== '');
}

/** Converts a node and everything below it. */
function convert(node: JsonValue | undefined, parameters: JsonObject, depth: number): Expression {
  if (depth > mostDepth) return other('a template with too much nesting');
  const part = (name: string): Expression => convert(partIn(node, name), parameters, depth + 1);
  const parts = (name: string): readonly Expression[] =>
    listIn(node, name).map((one) => {
      const isNamed = textIn(one, 'type') === 'KeywordArgumentExpression';
      return convert(isNamed ? partIn(one, 'value') : one, parameters, depth + 1);
    });
  const type = textIn(node, 'type') ?? '';
  switch (type) {
    case 'StringLiteral':
    case 'IntegerLiteral':
    case 'FloatLiteral':
      return valueOf(partIn(node, 'value') ?? null);
    case 'Identifier': {
      const name = textIn(node, 'value') ?? '';
      const [word, root] = [words.get(name), roots.get(name)];
      if (word !== undefined) return valueOf(word);
      return root === undefined
        ? other(`the name ${oneLine(name, 40)} in a template`)
        : { kind: 'path', root, steps: [] };
    }
    case 'ArrayLiteral':
    case 'TupleLiteral': {
      const values = parts('value').flatMap((one) => (one.kind === 'value' ? [one.value] : []));
      return values.length === listIn(node, 'value').length ? valueOf(values) : call('list', parts('value'));
    }
    case 'ObjectLiteral':
      return isEmptyMap(partIn(node, 'value')) ? valueOf({}) : other('a table in a template');
    case 'MemberExpression': {
      const property = partIn(node, 'property');
      const isName = partIn(node, 'computed') !== true && textIn(property, 'type') === 'Identifier';
      if (textIn(property, 'type') === 'SliceExpression') return call('slice', [part('object')]);
      return member(
        part('object'),
        isName ? valueOf(textIn(property, 'value') ?? '') : part('property'),
        parameters,
      );
    }
    default:
      return convertOperation({
        node,
        type,
        part,
        parts,
        convert: (one) => convert(one, parameters, depth + 1),
        parameters,
      });
  }
}

interface Operation {
  readonly node: JsonValue | undefined;
  readonly type: string;
  /** Converts a member of the node, a list of them, and any node below it. */
  readonly part: (name: string) => Expression;
  readonly parts: (name: string) => readonly Expression[];
  readonly convert: (node: JsonValue | undefined) => Expression;
  readonly parameters: JsonObject;
}

/** Calls, filters, signs, tests and choices. */
function convertOperation({ node, type, part, parts, convert: inner, parameters }: Operation): Expression {
  switch (type) {
    case 'CallExpression': {
      const callee = partIn(node, 'callee');
      if (textIn(callee, 'type') === 'Identifier') return call(textIn(callee, 'value') ?? '', parts('args'));
      const name = textIn(callee, 'property', 'value') ?? '';
      const object = inner(partIn(callee, 'object'));
      if (name !== 'get') return call(name, [object, ...parts('args')]);
      const [step = valueOf(null), fallback = valueOf(null)] = parts('args');
      return either('or', member(object, step, parameters), fallback);
    }
    case 'FilterExpression': {
      const filter = partIn(node, 'filter');
      const isCall = textIn(filter, 'type') === 'CallExpression';
      const name = textIn(filter, ...(isCall ? ['callee', 'value'] : ['value'])) ?? '';
      const args = isCall ? listIn(filter, 'args').map((one) => inner(one)) : [];
      return name === 'default'
        ? either('or', part('operand'), args[0] ?? valueOf(''))
        : call(name, [part('operand'), ...args]);
    }
    case 'BinaryExpression':
      return binary(textIn(node, 'operator', 'value') ?? '', part('left'), part('right'));
    case 'UnaryExpression': {
      const operand = part('argument');
      if (textIn(node, 'operator', 'value') === 'not') {
        return operand.kind === 'other' ? operand : { kind: 'not', parts: [operand] };
      }
      return operand.kind === 'value' && typeof operand.value === 'number'
        ? valueOf(-operand.value)
        : other('a sign before a value');
    }
    case 'TestExpression': {
      const name = textIn(node, 'test', 'value') ?? '';
      if (!words.has(name)) return other(`the test ${oneLine(name, 40)} in a template`);
      const isNegated = (partIn(node, 'negate') === true) !== (name === 'defined');
      return binary(isNegated ? '!=' : '==', part('operand'), valueOf(words.get(name) ?? null));
    }
    case 'Ternary':
      return choice(part('condition'), part('trueExpr'), part('falseExpr'));
    case 'SelectExpression':
      return choice(part('test'), part('lhs'), valueOf(''));
    case 'If':
      return choice(
        part('test'),
        joined([valueOf(''), ...parts('body')]),
        joined([valueOf(''), ...parts('alternate')]),
      );
    case 'Comment':
      return valueOf('');
    default:
      return other(`${type || 'nothing'} in a template`);
  }
}

/** `{}`, whose members the library keeps in a map. */
function isEmptyMap(value: unknown): boolean {
  return value instanceof Map && value.size === 0;
}

function choice(...parts: readonly [Expression, Expression, Expression]): Expression {
  return parts.find((part) => part.kind === 'other') ?? { kind: 'if', parts };
}

function member(object: Expression, step: Expression, parameters: JsonObject): Expression {
  if (object.kind === 'other') return object;
  const name = step.kind === 'value' ? step.value : null;
  if (typeof name !== 'string' && typeof name !== 'number') {
    return step.kind === 'other' ? step : other('a member without a fixed name');
  }
  if (/^__|^(?:constructor|prototype)$/.test(String(name))) {
    return other(`the member ${oneLine(String(name), 40)} of a value`);
  }
  if (object.kind === 'path' && object.root === 'parameters') {
    const value = partIn(parameters, String(name)) ?? null;
    return typeof value === 'string' ? parseExpression(value, {}) : valueOf(value);
  }
  if (object.kind === 'path') return { ...object, steps: [...object.steps, name] };
  return object.kind === 'call'
    ? call('part', [object, valueOf(name)])
    : other('a member of a computed value');
}

function call(name: string, parts: readonly Expression[]): Expression {
  const bad = parts.find((part) => part.kind === 'other');
  if (bad !== undefined) return bad;
  const [first] = parts;
  // Only writes a value as a text.
  if (['string', 'str', 'safe'].includes(name) && first !== undefined) return first;
  return functions.has(name) || name === 'part'
    ? { kind: 'call', name, parts }
    : other(`a call of ${oneLine(name, 40)}`);
}

function binary(operator: string, left: Expression, right: Expression): Expression {
  const bad = [left, right].find((side) => side.kind === 'other');
  if (bad !== undefined) return bad;
  if (operator === 'or' || operator === 'and') return either(operator, left, right);
  const isText = [left, right].some(
    (side) => side.kind === 'join' || (side.kind === 'value' && typeof side.value === 'string'),
  );
  if (operator === '~' || (operator === '+' && isText)) return joined([left, right]);
  if (
    operator === '+' &&
    left.kind === 'value' &&
    right.kind === 'value' &&
    [left, right].every(({ value }) => isJsonArray(value))
  ) {
    return valueOf([...listIn(left, 'value'), ...listIn(right, 'value')]);
  }
  if (/^[+*/%-]/.test(operator)) return { kind: 'call', name: operator, parts: [left, right] };
  return { kind: 'compare', operator, parts: [left, right] };
}

/** `a or b`, without what a fixed side decides. */
function either(kind: 'or' | 'and', left: Expression, right: Expression): Expression {
  if (left.kind === 'other') return left;
  if (left.kind === 'value') return isNothing(left) === (kind === 'or') ? right : left;
  if (kind === 'or' && isNothing(right)) return left;
  if (right.kind === 'other') return right;
  return { kind, parts: [left, right].flatMap((side) => (side.kind === kind ? side.parts : [side])) };
}

/** A fixed value that stands for an absent one. */
export function isNothing(value: Expression): boolean {
  if (value.kind !== 'value') return false;
  const given = value.value;
  return (
    given === null ||
    given === false ||
    given === 0 ||
    given === '' ||
    (typeof given === 'object' && Object.keys(given).length === 0)
  );
}

/** The expression in one form, whatever its spelling: `not response.next`, `config.x or "en"`. */
export function expressionText(expression: Expression): string {
  const texts = 'parts' in expression ? expression.parts.map(expressionText) : [];
  switch (expression.kind) {
    case 'value':
      return oneLine(JSON.stringify(expression.value), 60);
    case 'path':
      return [
        expression.root,
        ...expression.steps.map((step) => (/^[@\w-]+$/.test(String(step)) ? step : JSON.stringify(step))),
      ].join('.');
    case 'join':
      return texts.join(' and ');
    case 'or':
    case 'and':
      return texts.join(` ${expression.kind} `);
    case 'not':
      return `not ${texts[0]}`;
    case 'compare':
      return texts.join(` ${expression.operator} `);
    case 'call':
      return `${expression.name}(${texts.join(', ')})`;
    case 'if':
      return `a choice by ${texts[0]}`;
    case 'other':
      return expression.why;
  }
}

/** The variables that an expression reads. */
export function rootsOf(expression: Expression): ReadonlySet<string> {
  if (expression.kind === 'path') return new Set([expression.root]);
  if (expression.kind === 'call' && /^(?:now_utc|today_utc|day_delta)$/.test(expression.name)) {
    return new Set(['clock']);
  }
  return new Set(
    'parts' in expression
      ? expression.parts.flatMap((part) => [...rootsOf(part)])
      : expression.kind === 'other'
        ? ['other']
        : [],
  );
}
