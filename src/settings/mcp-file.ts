import * as z from 'zod';
import { secret } from './texts.ts';
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
  sql: z.boolean().default(false).meta({
    description: 'Whether agents may query what they see by SQL, as with --allow-sql',
  }),
  sqlUser: z.string().min(1).optional().meta({
    description:
      'The role that queries PostgreSQL sinks; it may read what agents see, and no more: mcp grant prints the SQL that makes it',
  }),
  sqlPassword: z.string().min(1).optional().meta(secret('Of that role, best as ${file:path} or ${VARIABLE}')),
});

export type McpFile = z.output<typeof mcpFile>;
