import type { Question } from './answers.ts';
import type { Parameter } from './parameter.ts';
import { choicesOf } from './left-out.ts';
import { oneLine } from './parts.ts';
import type { valuesSent } from './sent-values.ts';

/** About values that nothing in the file fills, and defaults that would leave records out. */
export function valueQuestions(
  entity: string,
  { limiting, listing, wrong }: Pick<ReturnType<typeof valuesSent>, 'limiting' | 'listing' | 'wrong'>,
  missing: readonly Parameter[],
): readonly Question[] {
  return [
    ...missing.map(({ name, description, schema }): Question => {
      const why = description === '' ? 'nothing in the file fills it' : oneLine(description, 120);
      return { kind: 'value', name, why, choices: choicesOf(schema) };
    }),
    ...limiting.map(({ name, fallback, schema }): Question => {
      const value = oneLine(typeof fallback === 'string' ? fallback : JSON.stringify(fallback), 200);
      const choices = choicesOf(schema);
      const why = `its default (${oneLine(value, 100)}) may leave records out: what should be sent?`;
      return { kind: 'value', name, why, choices: choices.length > 0 ? choices : [value] };
    }),
    ...listing.map((one): Question => ({ kind: 'ownValue', entity, ...one })),
    ...wrong,
  ];
}
