import * as z from 'zod';

/*
 * What dbt takes of the keys that are generated, made after the published JSON Schemas for files of sources:
 * those of dbt Core and of Fusion in dbt-labs/dbt-jsonschema at a9176ae (2026-06-15), where both agree. Nothing else
 * passes.
 */

const { strictObject } = z;
const name = z.string().regex(/^[a-z][a-z0-9_]*$/);
const description = z.string().min(1);
const column = strictObject({
  name: z.string().min(1),
  quote: z.boolean().optional(),
  description: description.optional(),
  data_tests: z.array(z.literal('not_null')).min(1).optional(),
});

const period = strictObject({ count: z.int().min(1), period: z.enum(['minute', 'hour', 'day']) });

export const dbtSources = strictObject({
  version: z.literal(2),
  sources: z.array(
    strictObject({
      name,
      description,
      database: z.string().optional(),
      schema: z.string(),
      loader: z.string(),
      config: strictObject({ loaded_at_field: z.string() }),
      tables: z.array(
        strictObject({
          name,
          identifier: z.string(),
          description,
          config: strictObject({
            freshness: strictObject({ warn_after: period }).nullable(),
            // No braces: dbt and dbt-duckdb would fill them in.
            meta: strictObject({ external_location: z.string().regex(/^[^{}]+$/) }).optional(),
          }),
          columns: z.array(column),
        }),
      ),
    }),
  ),
});
