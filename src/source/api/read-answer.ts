import type * as z from 'zod';
import { callFacts, type CallFacts } from './call-failure.ts';
import { invalidBody } from './classify-failure.ts';
import { parseJsonText } from './read-body.ts';

/** A body as the shape that the API promises; unknown members are left out. Throws `CallFailure` BODY_INVALID. */
export function readAnswer<Schema extends z.ZodType>(
  text: string,
  schema: Schema,
  facts: CallFacts,
): z.output<Schema> {
  let json: unknown;
  try {
    json = parseJsonText(text);
  } catch {
    throw invalidBody(facts, 'expected JSON, got something else');
  }
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  const path = parsed.error.issues[0]?.path.join('.') ?? '';
  throw invalidBody(facts, `the answer does not have the expected shape${path === '' ? '' : ` at ${path}`}`);
}

/** Facts of a call about the account rather than about records. `label`: for messages, as `find connectors`. */
export function catalogFacts(label: string, isWrite = false): CallFacts {
  return callFacts('catalog', label, { isWrite });
}
