import * as z from 'zod';
import { ProblemsError, type Problem } from '../../core/problems.ts';
import { readYaml, type YamlPath } from '../read-yaml.ts';
import { jsonValue, names, parseShape, strictObject } from '../schema-problems.ts';

export type Answers = z.output<ReturnType<typeof answersFile>>;
export type EntityAnswers = Answers['entities'][string];

/** The ways to page that a person can name, in the order of the question. */
export const pagingWays = ['token', 'address', 'page', 'offset', 'lastRecord'] as const;
const expectedKey = { error: 'expected a field, [fields], or none' };
const expectedPaging = `expected single, or { by: ${pagingWays.join(' | ')}, param: ..., from: ... }`;

function answeredPaging() {
  return strictObject({
    by: z.enum(pagingWays),
    // The parameter that asks for the next page.
    param: z.string(),
    // Of token and address: where in an answer it is, dotted, or `header Link`.
    from: z.string().optional(),
    // Of page: the number of the first one.
    first: z.union([z.literal(0), z.literal(1)]).optional(),
  });
}

/** What a person knows and the file does not say. */
function answersFile() {
  const values = z.record(z.string(), jsonValue()).default({});
  return strictObject({
    // Variables of the service's address.
    server: z.record(z.string(), z.string()).default({}),
    // Of list parameters, for every entity that has one of this name.
    values,
    entities: z
      .record(
        z.string(),
        strictObject({
          // `none`: all that a record holds identifies it.
          key: z
            .union([z.string(), names().refine((key) => key.length > 0, expectedKey)], expectedKey)
            .transform((key) => (typeof key === 'string' && key !== 'none' ? [key] : key))
            .optional(),
          // Where the answer has several lists: `data.tickets`.
          records: z.string().optional(),
          // One answer holds the whole listing; or how it pages.
          paging: z.union([z.literal('single'), answeredPaging()], { error: expectedPaging }).optional(),
          values,
        }),
      )
      .default({}),
  });
}

export const noAnswers: Answers = { server: {}, values: {}, entities: {} };

/** Answers as a file has them; `refuse` throws what an import finds wrong with them, where it stands in the file. */
export interface AnswersFile {
  readonly answers: Answers;
  readonly refuse: (wrong: readonly WrongAnswer[]) => never;
}

export interface WrongAnswer {
  readonly at: YamlPath;
  readonly why: string;
}

/** Throws `ProblemsError`. */
export function readAnswers(file: string): AnswersFile {
  const yaml = readYaml(file);
  const refuseAll = (problems: readonly Problem[]): never => {
    throw new ProblemsError('CONFIG_INVALID', problems, 'The answers');
  };
  if (yaml.problems.length > 0) refuseAll(yaml.problems);
  const refuse: AnswersFile['refuse'] = (wrong) =>
    refuseAll(wrong.map(({ at, why }) => yaml.problem(at, why)));
  // A file of comments alone.
  if (yaml.data === null) return { answers: noAnswers, refuse };
  const { value, problems } = parseShape(answersFile(), yaml.data, yaml);
  return value === null || problems.length > 0 ? refuseAll(problems) : { answers: value, refuse };
}

/** What is missing to convert an entity; `isWrong`: what was answered cannot be right, and `why` says it. */
export type Question = {
  readonly why: string;
  readonly choices: readonly string[];
  readonly isWrong?: boolean | undefined;
} & (
  | { readonly kind: 'server'; readonly name: string }
  | { readonly kind: 'value'; readonly name: string }
  /** Of a parameter that means something else to other entities. */
  | { readonly kind: 'ownValue'; readonly name: string; readonly entity: string }
  | { readonly kind: 'key'; readonly entity: string }
  | { readonly kind: 'records'; readonly entity: string }
  | { readonly kind: 'paging'; readonly entity: string }
);

/** Where the answer goes. Two entities that lack the same value are asked about once. */
export function placeOfAnswer(question: Question): readonly string[] {
  switch (question.kind) {
    case 'server':
      return ['server', question.name];
    case 'value':
      return ['values', question.name];
    case 'ownValue':
      return ['entities', question.entity, 'values', question.name];
    case 'key':
    case 'records':
    case 'paging':
      return ['entities', question.entity, question.kind];
  }
}
