import * as z from 'zod';
import type { Searches } from '../app/stored-search.ts';
import type { Clock } from '../core/clock.ts';
import { usage } from '../core/usage-error.ts';
import type { Answer } from './answer.ts';
import type { ShownEntities } from './shown-entities.ts';
import type { Sql } from './sql/open-sql.ts';

/** What tools read. */
export interface ToolWorld {
  readonly shown: ShownEntities;
  readonly searches: Searches;
  /** Null: agents may not query by SQL. */
  readonly sql: Sql | null;
  readonly clock: Clock;
  /** How a person calls this program. */
  readonly program: string;
}

interface ToolParts<Input extends z.ZodObject> {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly input: Input;
  /** Calls may take long: they do not keep others waiting. */
  readonly isSlow?: boolean;
  /** Rejects with `SyncError`, whose message the agent gets, or with the signal's reason. */
  readonly run: (world: ToolWorld, given: z.output<Input>, signal: AbortSignal) => Promise<Answer>;
}

export function tool<Input extends z.ZodObject>({ input, run, ...about }: ToolParts<Input>) {
  return {
    ...about,
    /** JSON Schema of what it takes. */
    inputSchema: z.toJSONSchema(input, { io: 'input' }) as { readonly type: 'object' },
    /** Checks what came, then runs. Rejects with USAGE for what the schema does not allow. */
    call: async (world: ToolWorld, given: unknown, signal: AbortSignal): Promise<Answer> => {
      const read = input.safeParse(given, {
        error: (issue) =>
          issue.code === 'invalid_type' && issue.input === undefined ? 'is missing' : undefined,
      });
      if (!read.success) throw usage(read.error.issues.slice(0, mostIssues).map(issueText).join('; '));
      return await run(world, read.data, signal);
    },
  };
}

const mostIssues = 5;

function issueText({ path, message }: z.core.$ZodIssue): string {
  return `${path.length === 0 ? 'arguments' : path.join('.')}: ${message}`;
}
