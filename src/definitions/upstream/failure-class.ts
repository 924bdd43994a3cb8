import * as z from 'zod';
import type { EntityName } from '../../core/names.ts';
import type { Frozen } from '../deep-freeze.ts';
import { strictObject, textAs } from '../schema-problems.ts';
import { answerPath, headerName } from './sent-texts.ts';

export type ErrorRule = Frozen<z.output<ReturnType<typeof errorRule>>>;
export type HeaderTime = Frozen<z.output<ReturnType<typeof headerTime>>>;
export type Wait = Frozen<z.output<ReturnType<typeof wait>>>;

export const failureClasses = [
  'unauthorized',
  'forbidden',
  'throttled',
  'edge',
  'quota',
  'notFound',
  'staleToken',
  'tooLarge',
  'unavailable',
  'refused',
] as const;

/**
 * `edge`: a network in front of the service refused; `staleToken`: the page token ended, the walk begins again;
 * `unavailable`: may pass; `refused`: the call is wrong and stays so.
 */
export type FailureClass = (typeof failureClasses)[number];

/** A name of the definition; `checkUpstream` sees to it that it is one. */
const entityName = (name: string | null): EntityName | null => name as EntityName | null;

function scalar() {
  return z.union([z.string(), z.number(), z.boolean()], {
    error: 'expected a text, a number, true or false',
  });
}

/** An answer with a status below 300 that is an error all the same. */
export function failedAnswer() {
  return strictObject({
    path: answerPath(),
    // The value that says so; null: any value but null, false and the empty text.
    is: scalar().nullable().default(null),
    // Where the answer names the error: tried for the text after `message`.
    code: answerPath().nullable().default(null),
  });
}

/** All conditions that are not null must hold. */
export function errorRule() {
  const name = textAs('x', headerName).nullable().default(null);
  return strictObject({
    status: z.int().min(200).max(599).nullable().default(null),
    where: z
      .record(z.string(), scalar())
      .default({})
      .transform((where) => Object.entries(where).map(([path, is]) => ({ path: path.split('.'), is }))),
    // A fragment of the error's text, without case.
    contains: z.string().min(3).nullable().default(null),
    hasHeader: name,
    lacksHeader: name,
    entity: z.string().nullable().default(null).transform(entityName),
    // oxlint-disable-next-line unicorn/no-thenable -- the file format's word; a schema is never awaited
    then: z.enum(failureClasses),
  });
}

function timeFormat() {
  return z.enum(['seconds', 'milliseconds', 'unix', 'httpDate']);
}

/** A header that holds a wait (seconds, milliseconds) or a time (unix seconds, an HTTP date). */
export function headerTime() {
  return strictObject({ header: textAs('x', headerName), format: timeFormat() });
}

/** How long to wait: as a header says, or always that long. */
export function wait() {
  return strictObject({
    header: textAs('x', headerName).optional(),
    format: timeFormat().optional(),
    seconds: z.number().positive().max(3600).optional(),
  }).transform(({ header, format, seconds }, context) => {
    if (seconds !== undefined && header === undefined && format === undefined) {
      return { kind: 'constant', seconds } as const;
    }
    if (seconds !== undefined || header === undefined || format === undefined) {
      const message = 'expected header and format, or seconds alone';
      context.addIssue({ code: 'custom', message, params: { standIn: { seconds: 1 } } });
    }
    return { kind: 'header', header: header ?? '', format: format ?? 'seconds' } as const;
  });
}

const classByStatus = new Map<number, FailureClass>([
  [401, 'unauthorized'],
  [402, 'quota'],
  [404, 'notFound'],
  [408, 'unavailable'],
  [409, 'unavailable'],
  [410, 'notFound'],
  [413, 'tooLarge'],
  [425, 'unavailable'],
  [429, 'throttled'],
  [529, 'throttled'],
]);

/** What an answer means that no rule matches. `isJson`: its body was a JSON object. */
export function defaultFailureClass(status: number, isJson: boolean): FailureClass {
  if (status === 403) return isJson ? 'forbidden' : 'edge';
  return classByStatus.get(status) ?? (status >= 500 ? 'unavailable' : 'refused');
}
