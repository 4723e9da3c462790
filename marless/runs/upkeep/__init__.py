"""What happens to runs after training: the space that they take, their removal, and archives of them."""
