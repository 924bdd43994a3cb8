import * as z from 'zod';
import { strictObject } from '../definitions/schema-problems.ts';

/** What `mcp` serves to agents. */
export const mcpFile = strictObject({
  connectors: z.array(z.string().min(1)).default([]).meta({
    description: 'The connectors that agents may read, * stands for any text; none named: all',
  }),
  exclude: z.array(z.string().min(1)).default([]).meta({
    description:
      'What agents never see: an entity or a field of one, such as list_members.email_address; newsletter/list_members is that of one connector',
  }),
});

export type McpFile = z.output<typeof mcpFile>;
