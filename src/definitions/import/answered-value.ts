import { isJsonArray, isJsonObject, type JsonValue } from '../../core/json.ts';
import { suggestName } from '../suggest-name.ts';
import type { Parameter } from './parameter.ts';
import { listIn, oneLine, plainText } from './parts.ts';
import type { Schemas } from './schemas.ts';

type Answered = { readonly value: JsonValue } | { readonly problem: string };

/** An answer as the parameter has it, one that was typed in as a text too; or what is wrong with it by the file. */
export function answeredValue(param: Parameter, answer: JsonValue, schemas: Schemas): Answered {
  const { type, schema } = param;
  if (answer === null) return { problem: 'it is required: null would send nothing' };
  if (type === 'array') {
    const list = typeof answer === 'string' ? answer.split(',').map((one) => one.trim()) : answer;
    const elements = isJsonArray(list) ? list : [list];
    const allowed = listIn(schemas.items(schema), 'enum');
    const wrong = allowed.length === 0 ? undefined : elements.find((one) => !allowed.includes(one));
    return wrong === undefined ? { value: elements } : unlike(allowed, wrong);
  }
  const value = asTyped(type, answer);
  // A time of the clock: { days: -30 }.
  const isClock = isJsonObject(value) && 'days' in value;
  const expected = schemas.typeOf(schema) === 'any' || isClock ? null : expectedOf(type, value);
  if (expected !== null) return { problem: `expected ${expected}, got ${shown(value)}` };
  const allowed = listIn(schema, 'enum');
  return allowed.length === 0 || isClock || allowed.includes(value) ? { value } : unlike(allowed, value);
}

/** In a terminal everything is a text. */
function asTyped(type: Parameter['type'], answer: JsonValue): JsonValue {
  const isPlain = typeof answer === 'number' || typeof answer === 'boolean';
  if (type === 'string') return isPlain ? String(answer) : answer;
  if (typeof answer !== 'string') return answer;
  if (type === 'boolean' && /^(?:true|false)$/.test(answer)) return answer === 'true';
  return type === 'integer' && /^-?\d{1,15}$/.test(answer) ? Number(answer) : answer;
}

function expectedOf(type: Parameter['type'], value: JsonValue): string | null {
  switch (type) {
    case 'string':
      return typeof value === 'string' ? null : 'a text';
    case 'integer':
      return typeof value === 'number' && Number.isInteger(value) ? null : 'a whole number';
    case 'boolean':
      return typeof value === 'boolean' ? null : 'true or false';
    case 'object':
      return isJsonObject(value) ? null : 'an object';
    case 'number':
    case 'array':
      return null;
  }
}

function unlike(allowed: readonly JsonValue[], value: JsonValue): Answered {
  const names = allowed.map(shown);
  return {
    problem: `expected one of ${names.slice(0, 20).join(', ')}, got ${shown(value)}${suggestName(shown(value), names)}`,
  };
}

function shown(value: JsonValue): string {
  return oneLine(plainText(value) || JSON.stringify(value), 80);
}
