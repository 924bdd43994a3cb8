import { isJsonObject, type JsonObject } from '../../core/json.ts';
import { expressionText, nodesIn, type Expression, type Steps } from './expressions.ts';
import { listIn, objectIn, oneLine, partIn, plainText, textIn, textsIn } from './schemas.ts';

/** Why a stream, a sign-in or another part cannot be imported, and the component that decides. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
}

/** A place of the file, as messages name it. */
interface Place {
  readonly type: string;
  readonly line: number | null;
}

/** Throws the refusal. `at`: the component that decides. */
export function refuse(why: string, at: Place): never {
  throw new Refusal(`${oneLine(why, 200)} (${at.type || 'component'}, line ${at.line ?? '?'})`);
}

/** Returns what the function does, or what `otherwise` makes of a refusal. */
export function unlessRefused<Read, Other>(
  read: () => Read,
  otherwise: (why: string) => Other,
): Read | Other {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return otherwise(error.message);
  }
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
  const isSecretAt = (steps: Steps): boolean => partIn(shapeAt(steps)?.schema, 'airbyte_secret') === true;
  const isComputed = (steps: Steps): boolean =>
    computed.has(steps.join('.')) || computed.has(String(steps[0]));
  const known = (key: string, place: string, make: (name: string) => Setting): Setting => {
    const taken = new Set([...found.values()].map(({ name }) => name));
    const names = [place.split('.').at(-1) ?? place, place, `${place}_${found.size}`].map(safeName);
    const setting = found.get(key) ?? make(names.find((name) => !taken.has(name)) ?? `setting_${found.size}`);
    found.set(key, setting);
    return setting;
  };
  return {
    /** The setting at a place. `format`: how the text is sent, where a template writes a time in another form. */
    at: (steps: Steps, at: Place, format: string | null = null): Setting => {
      const place = steps.join('.');
      if (isComputed(steps)) refuse(`the configuration value ${place}, which the file computes`, at);
      const { schema, isRequired = false } = shapeAt(steps) ?? {};
      const isSecret = isSecretAt(steps);
      const fallback = isSecret ? '' : plainText(partIn(schema, 'default'));
      const title = oneLine(textIn(schema, 'title') ?? place, 80);
      return known(`${place} ${format}`, format === null ? place : `${place}_as_sent`, (name) => ({
        name,
        title: format === null ? title : `${title}, as it is sent (${format})`,
        isSecret,
        isRequired: isRequired && fallback === '',
        fallback: fallback || null,
        values: textsIn(schema, 'enum'),
      }));
    },
    /** A setting in place of a text that a template makes of values of the connector only. */
    madeOf: (expression: Expression, at: Place): Setting => {
      const places = placesIn(expression);
      const text = oneLine(expressionText(expression), 100);
      if (places.some(isComputed)) refuse(`a value that the file computes (${text})`, at);
      return known(text, `${places[0]?.join('.') ?? ''}_as_sent`, (name) => {
        const title = oneLine(`${name}, as it is sent: ${text}`, 140);
        return {
          name,
          title,
          isSecret: places.some(isSecretAt),
          isRequired: true,
          fallback: null,
          values: [],
        };
      });
    },
    /** Whether the file describes a value of the connector. */
    isKnown: (steps: Steps): boolean =>
      shapes.size === 0 || shapeAt(steps) !== undefined || isComputed(steps),
    isSecretAt,
  };
}

/** The values of the connector in an expression. */
export function placesIn(expression: Expression): readonly Steps[] {
  return nodesIn(expression).flatMap((one) =>
    one.kind === 'path' && one.root === 'config' ? [one.steps] : [],
  );
}

function safeName(text: string): string {
  const name = text.replaceAll(/[^A-Za-z0-9_-]+/g, '_').replace(/^[^A-Za-z]+/, '');
  return (name === '' ? 'setting' : name).slice(0, 60);
}

/** Values of a connector by their places, such as `credentials.api_key`, in every form that the file allows. */
function shapesIn(spec: JsonObject) {
  const found = new Map<string, { readonly schema: JsonObject; readonly isRequired: boolean }>();
  const add = (schema: JsonObject, above: readonly string[]): void => {
    if (above.length > 5) return;
    for (const [name, one] of Object.entries(objectIn(schema, 'properties'))) {
      const place = [...above, name];
      if (!isJsonObject(one)) continue;
      const isRequired = textsIn(schema, 'required').includes(name);
      if (!found.has(place.join('.'))) found.set(place.join('.'), { schema: one, isRequired });
      add(one, place);
    }
    const choices = [...listIn(schema, 'oneOf'), ...listIn(schema, 'anyOf')];
    for (const one of choices) add(objectIn(one), above);
  };
  add(spec, []);
  return found;
}
