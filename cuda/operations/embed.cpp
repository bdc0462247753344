#include "base/error.h"
#include "matmul/product.h"
#include "operations/operations.h"

namespace quire::cuda {

Status embed(CudaDevice& device, const EmbedArgs& args) {
  if (args.table == nullptr) return error(StatusCode::internal, "embed: a weight is missing");
  const PassTables& tables = device.scratch()->tables();
  if (args.tokens.size() != static_cast<std::size_t>(tables.rows())) {
    return error(StatusCode::internal, "embed: {} tokens in a pass of {}", args.tokens.size(),
                 tables.rows());
  }
  for (const std::int32_t token : args.tokens) {
    if (token >= 0 && token < args.table->rows()) continue;
    return error(StatusCode::internal, "embed: token {} of a table of {}", token,
                 args.table->rows());
  }
  return gather_rows(device.launch(), *args.table, tables.tokens(), tables.rows(), args.scale,
                     args.hidden);
}

}  // namespace quire::cuda
