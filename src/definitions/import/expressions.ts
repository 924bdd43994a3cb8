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
  | {
      /**
       * `join`: texts and values one after another; `if`: the test, the value where it holds, and the other one;
       * `call`: a function, method, filter or sign of arithmetic, on the first part.
       */
      readonly kind: 'join' | 'or' | 'and' | 'not' | 'compare' | 'call' | 'if';
      /** The operator of a comparison, or what is called. */
      readonly name: string;
      readonly parts: readonly Expression[];
    }
  | { readonly kind: 'other'; readonly why: string };

export type Steps = readonly (string | number)[];

/** The variables of a template that are called something else here. */
const renamed = new Map([
  ['stream_slice', 'slice'],
  ['stream_partition', 'slice'],
  ['stream_interval', 'slice'],
  ['decoded_response', 'response'],
  ['next_page_token', 'token'],
  ['stream_state', 'state'],
]);
const roots = /^(?:config|record|response|headers|last_records?|last_page_size|parameters)$/;

const functions: ReadonlySet<string> = new Set(
  [
    'now_utc today_utc day_delta duration timestamp format_datetime str_to_datetime strftime isoformat',
    'max min length count int float round lower upper strip lstrip rstrip trim split replace join slice',
    'hash base64encode urlencode regex_search sanitize_url tojson last first items keys values list part table',
  ].flatMap((line) => line.split(' ')),
);

/** The value of a word, or of a test such as `is defined`; undefined: the name is no such word. */
function valueOfWord(name: string): JsonValue | undefined {
  if (/^[Tt]rue$/.test(name)) return true;
  if (/^[Ff]alse$/.test(name)) return false;
  return /^(?:[Nn]one|null|undefined|defined)$/.test(name) ? null : undefined;
}

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
  const all = given.flatMap(partsOf);
  const parts = all.length === 1 ? all : withoutQuotes(all.filter(isWritten));
  const [only, ...more] = parts;
  if (only !== undefined && more.length === 0) return only;
  return parts.every((part) => part.kind === 'value')
    ? valueOf(parts.map(fixedText).join(''))
    : made('join', parts);
}

/** The parts of a longer text, or the only one. */
export function partsOf(part: Expression): readonly Expression[] {
  return part.kind === 'join' ? part.parts : [part];
}

function isWritten(part: Expression): boolean {
  return part.kind !== 'value' || fixedText(part) !== '';
}

/** Makes an expression of these parts, unless one of them is refused. */
function made(
  kind: Extract<Expression, { name: string }>['kind'],
  parts: readonly Expression[],
  name: string = kind,
): Expression {
  return parts.find((part) => part.kind === 'other') ?? { kind, name, parts };
}

/** A text in quotes stands for the text, as the program that runs these templates takes it. */
function withoutQuotes(parts: readonly Expression[]): readonly Expression[] {
  const [first, last] = [fixedText(parts[0]), fixedText(parts.at(-1))];
  if (parts.length < 2 || !/^["']/.test(first) || last.at(-1) !== first[0]) return parts;
  return [valueOf(first.slice(1)), ...parts.slice(1, -1), valueOf(last.slice(0, -1))].filter(isWritten);
}

type Node = ReturnType<typeof openNode>;

/** Reads members of a node of the tree, at these names. */
function openNode(data: JsonValue | undefined, parameters: JsonObject, depth: number) {
  const inner = (one: JsonValue | undefined) => convert(one, parameters, depth + 1);
  return {
    parameters,
    get: (...names: readonly string[]) => partIn(data, ...names) ?? null,
    text: (...names: readonly string[]) => textIn(data, ...names) ?? '',
    part: (...names: readonly string[]) => inner(partIn(data, ...names)),
    /** The values of a table, which the library keeps in a map. */
    members: (name: string): readonly Expression[] => {
      const map: unknown = partIn(data, name);
      return map instanceof Map ? [...(map as Map<JsonValue, JsonValue>).values()].map(inner) : [];
    },
    parts: (...names: readonly string[]) =>
      listIn(data, ...names).map((one) =>
        inner(textIn(one, 'type') === 'KeywordArgumentExpression' ? partIn(one, 'value') : one),
      ),
  };
}

/** Converts a node and everything below it. */
function convert(data: JsonValue | undefined, parameters: JsonObject, depth: number): Expression {
  if (depth > mostDepth) return other('a template with too much nesting');
  const type = textIn(data, 'type') ?? '';
  const read = Object.hasOwn(converters, type) ? converters[type] : undefined;
  return read?.(openNode(data, parameters, depth)) ?? other(`${type || 'nothing'} in a template`);
}

const literal = ({ get }: Node): Expression => valueOf(get('value'));

function list({ parts }: Node): Expression {
  const all = parts('value');
  const values = all.flatMap((one) => (one.kind === 'value' ? [one.value] : []));
  return values.length === all.length ? valueOf(values) : call('list', all);
}

/** The forms of a template by the names that the library gives them. */
const converters: Readonly<Record<string, (node: Node) => Expression>> = {
  StringLiteral: literal,
  IntegerLiteral: literal,
  FloatLiteral: literal,
  ArrayLiteral: list,
  TupleLiteral: list,
  Identifier: ({ text }) => variable(text('value')),
  ObjectLiteral: ({ members }) => {
    const values = members('value');
    return values.length === 0 ? valueOf({}) : call('table', values);
  },
  MemberExpression: ({ get, text, part, parameters }) => {
    if (text('property', 'type') === 'SliceExpression') {
      const bounds = ['start', 'stop'].map((name) =>
        get('property', name) === null ? valueOf(null) : part('property', name),
      );
      return call('slice', [part('object'), ...bounds]);
    }
    const isName = get('computed') !== true && text('property', 'type') === 'Identifier';
    return member(part('object'), isName ? valueOf(text('property', 'value')) : part('property'), parameters);
  },
  CallExpression: ({ text, part, parts, parameters }) => {
    if (text('callee', 'type') === 'Identifier') return call(text('callee', 'value'), parts('args'));
    const name = text('callee', 'property', 'value');
    const object = part('callee', 'object');
    if (name !== 'get') return call(name, [object, ...parts('args')]);
    const [step = valueOf(null), fallback = valueOf(null)] = parts('args');
    return either('or', member(object, step, parameters), fallback);
  },
  FilterExpression: ({ text, part, parts }) => {
    const name = text('filter', 'callee', 'value') || text('filter', 'value');
    const args = parts('filter', 'args');
    return name === 'default'
      ? either('or', part('operand'), args[0] ?? valueOf(''))
      : call(name, [part('operand'), ...args]);
  },
  BinaryExpression: ({ text, part }) => binary(text('operator', 'value'), part('left'), part('right')),
  UnaryExpression: ({ text, part }) => {
    const operand = part('argument');
    if (text('operator', 'value') === 'not') return made('not', [operand]);
    return operand.kind === 'value' && typeof operand.value === 'number'
      ? valueOf(-operand.value)
      : other('a sign before a value');
  },
  TestExpression: ({ get, text, part }) => {
    const name = text('test', 'value');
    const value = valueOfWord(name);
    if (value === undefined) return other(`the test ${oneLine(name, 40)} in a template`);
    const isNegated = (get('negate') === true) !== (name === 'defined');
    return binary(isNegated ? '!=' : '==', part('operand'), valueOf(value));
  },
  Ternary: ({ part }) => made('if', [part('condition'), part('trueExpr'), part('falseExpr')]),
  SelectExpression: ({ part }) => made('if', [part('test'), part('lhs'), valueOf('')]),
  If: ({ part, parts }) => {
    const sides = [parts('body'), parts('alternate')].map((all) => joined([valueOf(''), ...all]));
    return made('if', [part('test'), ...sides]);
  },
  Comment: () => valueOf(''),
};

function variable(name: string): Expression {
  const word = valueOfWord(name);
  if (word !== undefined) return valueOf(word);
  const root = renamed.get(name) ?? (roots.test(name) ? name : null);
  return root === null
    ? other(`the name ${oneLine(name, 40)} in a template`)
    : { kind: 'path', root, steps: [] };
}

function member(object: Expression, step: Expression, parameters: JsonObject): Expression {
  const refused = [object, step].find((part) => part.kind === 'other');
  if (refused !== undefined) return refused;
  const name = step.kind === 'value' ? step.value : null;
  if (typeof name !== 'string' && typeof name !== 'number') return other('a member without a fixed name');
  if (/^__|^(?:constructor|prototype)$/.test(String(name))) {
    return other(`the member ${oneLine(String(name), 40)} of a value`);
  }
  if (object.kind === 'call') return call('part', [object, step]);
  if (object.kind !== 'path') return other('a member of a computed value');
  if (object.root !== 'parameters') return { ...object, steps: [...object.steps, name] };
  const value = partIn(parameters, String(name)) ?? null;
  return typeof value === 'string' ? parseExpression(value, {}) : valueOf(value);
}

function call(name: string, parts: readonly Expression[]): Expression {
  const [first] = parts;
  // Only writes a value as a text.
  if (/^(?:string|str|safe)$/.test(name) && first !== undefined) return first;
  const refused = parts.find((part) => part.kind === 'other');
  return (
    refused ?? (functions.has(name) ? made('call', parts, name) : other(`a call of ${oneLine(name, 40)}`))
  );
}

function binary(operator: string, left: Expression, right: Expression): Expression {
  const parts = [left, right];
  if (operator === 'or' || operator === 'and') return either(operator, left, right);
  const isText = (side: Expression) =>
    side.kind === 'join' || (side.kind === 'value' && typeof side.value === 'string');
  const isList = (side: Expression) => side.kind === 'value' && isJsonArray(side.value);
  if (operator === '~' || (operator === '+' && parts.some(isText))) return joined(parts);
  if (operator === '+' && parts.every(isList)) {
    return valueOf([...listIn(left, 'value'), ...listIn(right, 'value')]);
  }
  return made(/^[+*/%-]/.test(operator) ? 'call' : 'compare', parts, operator);
}

/** `a or b`, without what a fixed side decides. */
function either(kind: 'or' | 'and', left: Expression, right: Expression): Expression {
  if (left.kind === 'value') return isNothing(left) === (kind === 'or') ? right : left;
  if (kind === 'or' && isNothing(right)) return left;
  return made(
    kind,
    [left, right].flatMap((side) => (side.kind === kind ? side.parts : [side])),
  );
}

/** A fixed value that stands for an absent one. */
export function isNothing(part: Expression): boolean {
  if (part.kind !== 'value') return false;
  const { value } = part;
  return typeof value === 'object' && value !== null ? Object.keys(value).length === 0 : !value;
}

/** The expression in one form, whatever its spelling: `not response.next`, `config.x or "en"`. */
export function expressionText(expression: Expression): string {
  if (expression.kind === 'value') return oneLine(JSON.stringify(expression.value), 60);
  if (expression.kind === 'other') return expression.why;
  if (expression.kind === 'path') {
    const isPlain = (step: string | number): boolean => /^[@\w.-]+$/.test(String(step));
    const steps = expression.steps.map((step) => (isPlain(step) ? escaped(step) : JSON.stringify(step)));
    return [expression.root, ...steps].join('.');
  }
  const { kind, name } = expression;
  const texts = expression.parts.map(expressionText);
  if (kind === 'not') return `not ${texts[0]}`;
  if (kind === 'if') return `a choice by ${texts[0]}`;
  return kind === 'call' ? `${name}(${texts.join(', ')})` : texts.join(` ${kind === 'join' ? 'and' : name} `);
}

/** A name as a dotted path has it. */
export function escaped(step: string | number): string {
  return String(step).replaceAll('.', String.raw`\.`);
}

/** The expression and everything in it. */
export function nodesIn(expression: Expression): readonly Expression[] {
  return [expression, ...('parts' in expression ? expression.parts.flatMap(nodesIn) : [])];
}

/** The functions, methods, filters and signs of arithmetic in an expression. */
export function callsIn(expression: Expression): readonly string[] {
  return nodesIn(expression).flatMap((one) => (one.kind === 'call' ? [one.name] : []));
}

/** The variables that an expression reads; `clock` and `other` for what it computes. */
export function rootsOf(expression: Expression): ReadonlySet<string> {
  const roots = nodesIn(expression).flatMap((one) => {
    if (one.kind === 'path') return [one.root];
    return one.kind === 'other' ? ['other'] : [];
  });
  const isByClock = callsIn(expression).some((name) => /^(?:now_utc|today_utc|day_delta)$/.test(name));
  return new Set(isByClock ? [...roots, 'clock'] : roots);
}
